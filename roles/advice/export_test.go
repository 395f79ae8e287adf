package advice

// Try runs real iterations with a layout.
var Try = (*Subject).try

// WorldLike is the size of the world of a trial.
var WorldLike = worldLike
