"""The papers' experiments: what each table and figure needs, the paper's numbers beside ours, and whether its claims hold."""
