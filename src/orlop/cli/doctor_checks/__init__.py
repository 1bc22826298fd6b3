"""What `orlop doctor` asks of the host, its network and the site."""
