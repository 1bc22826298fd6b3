"""The checks of `orlop doctor`: the host, its network and the site."""
