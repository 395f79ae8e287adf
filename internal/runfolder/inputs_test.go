package runfolder

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestHashInputs: the files and folders that a configuration names have hashes, which follow their contents.
func TestHashInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "weights"), filepath.Join(dir, "tokenizer")
	test.OK(t, os.Mkdir(folder, 0o777))
	write := func(path, text string) { test.OK(t, os.WriteFile(path, []byte(text), 0o666)) }
	write(file, "abc")
	write(filepath.Join(folder, "tokenizer.json"), "{}")
	config := []byte("runner: {ckpt_path: " + file + ", logger: {log_path: " + dir + "}}\ndata: {train_data_paths: [" +
		file + ", none]}\nactor: {tokenizer: {tokenizer_model: " + folder + "}, seed: 1}\n")
	hashes := test.Must(HashInputs(config))(t)
	test.EqualSlices(t, slices.Sorted(maps.Keys(hashes)), []string{folder, file})
	test.Equal(t, hashes[file], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") // FIPS 180-2
	link := filepath.Join(dir, "link")
	test.OK(t, os.Symlink(folder, link))
	test.Equal(t, test.Must(HashPath(link))(t), hashes[folder])
	write(filepath.Join(folder, "tokenizer.json"), "{ }")
	test.Equal(t, test.Must(HashPath(folder))(t) == hashes[folder], false)
}
