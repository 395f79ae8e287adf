package advice

// Try runs real iterations with a layout.
var Try = (*Subject).try
