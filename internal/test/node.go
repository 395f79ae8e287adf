package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// NodeModules returns the folder of npm's global modules, for the variable NODE_PATH. It returns "" unless the folder
// has all named modules; scripts/setup test installs them.
func NodeModules(names ...string) string {
	root, err := exec.Command("npm", "root", "-g").Output()
	if err != nil {
		return ""
	}
	modules := strings.TrimSpace(string(root))
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(modules, name)); err != nil {
			return ""
		}
	}
	return modules
}
