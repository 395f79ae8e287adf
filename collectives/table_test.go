package collectives_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
)

// TestReadTable: the numbers of a table may be written as floats, as other programs write them.
func TestReadTable(t *testing.T) {
	read := func(members, bytes string) (*collectives.TuningTable, error) {
		file := filepath.Join(t.TempDir(), "table.json")
		text := `{"schema": 1.0, "rules": [{"kind": "allreduce", "members": ` + members + `, "bytes": ` + bytes +
			`, "algorithm": "ring"}]}`
		test.OK(t, os.WriteFile(file, []byte(text), 0o600))
		return collectives.ReadTuningTable(file)
	}
	want := test.Must(read("8", "4096"))(t)
	if got, err := read("8.0", "4.096e3"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	test.Fails(t, test.Err(read("8.5", "4096")), "8.5", "half a member")
}
