package external

// pause leaves the core to the other thread that it runs, for some 10 to 50 ns.
func pause()
