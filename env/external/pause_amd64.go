package external

// pause leaves the core to its other hardware thread for some 10 to 50 ns.
func pause()
