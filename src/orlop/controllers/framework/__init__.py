"""What every controller is made of: queues, informers, status, and the manager that runs them."""
