"""What the conformance tests share: engine forms, pieces and recipes, networks, federations, random cases."""
