"""PersistentVolumes and their claims: bound, provisioned, protected."""
