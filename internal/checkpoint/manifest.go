package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

// format is the version of the folder's layout. Other versions are not read.
const format = 1

const manifestFile = "manifest.json"

// A manifest describes a checkpoint. Its file is written last. If this file exists and matches the other files, the
// checkpoint is complete.
type manifest struct {
	Format  int       `json:"format"`
	Step    int64     `json:"step"`
	Ranks   int       `json:"ranks"`
	Config  string    `json:"config"` // hash of the resolved configuration
	Created time.Time `json:"created"`
	Score   *float64  `json:"score,omitempty"` // see Info
	Files   []entry   `json:"files"`
	Sum     string    `json:"sum"` // checksum of this manifest with Sum empty
}

// An entry describes a file of a checkpoint.
type entry struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns a CRC-32C checksum as text.
func sumOf(crc uint32) string { return fmt.Sprintf("crc32c:%08x", crc) }

// encode returns the manifest as JSON, with Sum set.
func (m manifest) encode() ([]byte, error) {
	m.Sum = ""
	plain, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	m.Sum = sumOf(crc32.Checksum(plain, castagnoli))
	return json.MarshalIndent(m, "", "  ")
}

// readManifest reads the manifest of the checkpoint in dir.
func readManifest(dir string) (manifest, error) {
	data, err := durable.ReadFile(filepath.Join(dir, manifestFile), durable.Text)
	if os.IsNotExist(err) {
		return manifest{}, fmt.Errorf("%s: missing: the checkpoint is incomplete, or the folder is no checkpoint: "+
			"expected a folder checkpoints/global_step_N of a run", manifestFile)
	} else if err != nil {
		return manifest{}, err
	}
	var version struct{ Format int }
	if err := json.Unmarshal(data, &version); err != nil {
		return manifest{}, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if version.Format != format {
		return manifest{}, fmt.Errorf("%s: format %d, expected %d", manifestFile, version.Format, format)
	}
	var m manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return manifest{}, fmt.Errorf("%s: %w", manifestFile, err)
	}
	again, err := m.encode()
	if err != nil {
		return manifest{}, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if !bytes.Equal(again, data) {
		return manifest{}, fmt.Errorf("%s: changed after it was written: its checksum is not %s", manifestFile, m.Sum)
	}
	for _, e := range m.Files {
		if e.Name != filepath.Base(e.Name) || !filepath.IsLocal(e.Name) {
			return manifest{}, fmt.Errorf("%s: file %q, expected a name without a folder", manifestFile, e.Name)
		}
	}
	return m, nil
}

// verify copies the file that e describes from the folder dir to w, and checks its size and checksum.
func (e entry) verify(dir string, w io.Writer) error {
	f, err := durable.Open(filepath.Join(dir, e.Name))
	if os.IsNotExist(err) {
		return fmt.Errorf("%s: missing, expected %d bytes", e.Name, e.Size)
	} else if err != nil {
		return err
	}
	defer f.Close()
	crc := crc32.New(castagnoli)
	size, err := io.Copy(io.MultiWriter(crc, w), f)
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	if size != e.Size {
		return fmt.Errorf("%s: %d bytes, expected %d", e.Name, size, e.Size)
	}
	if sum := sumOf(crc.Sum32()); sum != e.Sum {
		return fmt.Errorf("%s: checksum %s, expected %s", e.Name, sum, e.Sum)
	}
	return nil
}
