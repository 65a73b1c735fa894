"""What comes before a round: finding engines that run, drafting a plan for them, and telling what a plan will do."""
