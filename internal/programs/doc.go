// Package programs answers: how does a process start programs that end with it? It starts programs and guarantees that
// they and all their descendants end with this process, even if it is killed.
//
//	func main() {
//		entry := programs.Enter() // first of all: in a supervisor it does not return
//		starter := entry.NewStarter()
//		defer starter.Close()
//		p, err := starter.Start(exec.Command("simulator"))
//
// A Starter has a supervisor: a second process of this executable, in its own process group, with a socket to this
// process. The supervisor starts the programs and gets their files over the socket. It is a subreaper: a descendant
// whose parent has ended becomes its child, even after setsid or a double fork. When the socket closes, the supervisor
// kills its children until none is left. A Starter starts its supervisor with the first program.
//
// If main does not call Enter, the Entered is zero, and this process starts the programs itself. The programs end with
// this process, but their descendants may not.
//
// supervisor.go has the code of the supervisor. socket.go has its protocol.
package programs
