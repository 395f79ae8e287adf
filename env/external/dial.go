package external

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Token returns the secret that this process sends when it connects as a child. It is the value of
// RLB_TOKEN, otherwise the first line of the file RLB_TOKEN_FILE, otherwise "".
func Token() (string, error) {
	if token := os.Getenv("RLB_TOKEN"); token != "" {
		return token, nil
	}
	file := os.Getenv("RLB_TOKEN_FILE")
	if file == "" {
		return "", nil
	}
	line, err := readSecret(file)
	if err != nil {
		return "", fmt.Errorf("RLB_TOKEN_FILE: %w", err)
	}
	return line, nil
}

// patience is the time for which a child tries to connect to a parent that does not listen yet.
const patience = 10 * time.Second

// dial connects a child to its parent.
func dial(address string) (*stream, error) {
	network, at, _ := strings.Cut(address, ":")
	switch network {
	case "fd":
		var in, out int
		if _, err := fmt.Sscanf(at, "%d,%d", &in, &out); err != nil {
			return nil, errors.New("expected fd:IN,OUT")
		}
		return newPipes(os.NewFile(uintptr(in), "requests"), os.NewFile(uintptr(out), "answers"))
	case "unix", "tcp":
		for by := time.Now().Add(patience); ; time.Sleep(patience / 100) {
			conn, err := net.Dial(network, at)
			if err == nil {
				return newSocket(conn)
			}
			if time.Now().After(by) {
				return nil, err
			}
		}
	}
	return nil, errors.New("expected fd:IN,OUT, unix:/path or tcp:host:port")
}
