package layers

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// chainPackages are the folders of the packages that docs/ways.md names.
var chainPackages = map[string]string{
	"main": ".", "roles": "roles", "cli": "roles/cli", "args": "roles/cli/args", "session": "roles/session",
	"loop": "roles/loop", "embodied": "roles/embodied", "worker": "roles/embodied/worker", "member": "roles/member",
	"algo": "algo", "advice": "roles/advice", "planner": "roles/planner", "task": "roles/task",
	"moves": "internal/moves", "spmd": "spmd",
}

// TestWays: each function of docs/ways.md exists, and no way has more functions or rooms than it should.
func TestWays(t *testing.T) {
	page := test.Must(os.ReadFile("../../docs/ways.md"))(t)
	code := declarations(t, os.DirFS("../.."))
	for title, most := range map[string]struct{ functions, rooms int }{
		"From main to the first update": {25, 10}, "The steps of a start": {6, 2}, "A plan": {12, 5}, "A move": {15, 7},
	} {
		_, way, found := strings.Cut(string(page), "\n## "+title+"\n")
		way, _, _ = strings.Cut(way, "\n## ")
		names := regexp.MustCompile("`([a-z]+)\\.([A-Za-z.]+)`").FindAllStringSubmatch(way, -1)
		rooms := map[string]bool{}
		for _, n := range names {
			dir, known := chainPackages[n[1]]
			rooms[dir] = true
			if !known {
				t.Errorf("%s.%s: no folder of the package %s", n[1], n[2], n[1])
				continue
			}
			of, name, method := strings.Cut(n[2], ".")
			if of = dir + "." + of; !code.names[of] || method && !code.members[of][name] {
				t.Errorf("%s has no %s", dir, n[2])
			}
		}
		if !found || len(names) < 5 || len(names) > most.functions || len(rooms) > most.rooms {
			t.Errorf("%s: %d functions in %d rooms, want 5 to %d in %d", title, len(names), len(rooms), most.functions,
				most.rooms)
		}
	}
}
