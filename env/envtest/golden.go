package envtest

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
)

// Golden reads the episodes in testdata/NAME.json.gz as values of type E. It fails the test if the
// file cannot be read or has no episode.
func Golden[E any](t testing.TB, name string) []E {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Episodes []E `json:"episodes"`
	}
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Episodes) == 0 {
		t.Fatalf("%s: no episodes", name)
	}
	return file.Episodes
}
