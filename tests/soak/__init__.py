"""What takes too long for `make test`: run by `make soak`, for hours if told so by ORLOP_SOAK."""
