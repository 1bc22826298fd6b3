"""Runs one pod from bound to gone: bound, prepared, submitted, followed, ended.

A pod of a gang is submitted with the others, so `gangs` finds those among the pods that it runs.
"""
