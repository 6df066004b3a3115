"""Which remedy a federation should use: facts, demands, a fair contest, a decision. Its door is `askew.advise`."""
