"""What the conformance tests share: engine forms, pieces and recipes, networks, federations, a generator of random
cases."""
