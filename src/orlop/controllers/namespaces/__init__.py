"""What every namespace has, what it may use, and how it is emptied."""
