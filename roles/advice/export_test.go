package advice

// Try runs real iterations with a layout.
var Try = (*Subject).try

// WorldLike is the size of the world of a trial.
var WorldLike = worldLike

// TrialSteps returns the numbers of iterations that a trial skips and measures.
var TrialSteps = trialSteps
