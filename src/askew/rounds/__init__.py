"""What a round is: who trains, what the server makes of it, how good the result is."""
