"""CronJobs: a Job each time a schedule says so."""
