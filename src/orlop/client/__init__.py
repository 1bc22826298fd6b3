"""How the rest sees the API: one interface, two transports, informers, work queues, events."""
