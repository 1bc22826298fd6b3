"""The parts of every controller: queues, informers, status, and the manager that runs them."""
