"""A fuzzer of our own for every parser that strangers reach; see README.md for the list.

`python -m tests.fuzzing` runs it by hand, `make fuzz` and `make soak` with a million inputs for
each target, `make test` with some hundreds.
"""
