"""ozdayi2020: its tables and figures, the numbers that it prints, remarks on ours."""
