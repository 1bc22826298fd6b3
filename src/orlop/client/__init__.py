"""Shows the API to the rest: one interface, two transports, informers, work queues, events."""
