"""CertificateSigningRequests: approved, signed, removed."""
