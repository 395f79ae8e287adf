// Package programs starts programs, and sees to it that all they have started ends with this
// process, however that ends.
//
//	func main() {
//		entry := programs.Enter() // first of all: in a supervisor it does not return
//		starter := entry.NewStarter()
//		defer starter.Close()
//		p, err := starter.Start(exec.Command("simulator"))
//
// A Starter has a supervisor: this executable, started once more, in a process group of its own, with
// one socket to this process and no other descriptor. The supervisor starts the programs; their files
// travel over the socket. It is a subreaper: a descendant whose parent has ended becomes its child,
// also one that called setsid or was forked twice. At the end of the socket the supervisor kills its
// children until it has none. The first program starts the supervisor, so that a process without
// programs has none.
//
// A main that does not call Enter has only the zero Entry. Then this process starts the programs
// itself. They end with it, but their descendants may not.
//
// supervisor.go is the program of the supervisor, socket.go the way to it.
package programs
