"""StatefulSets: pods with names, order and volumes of their own."""
