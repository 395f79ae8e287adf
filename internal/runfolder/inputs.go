package runfolder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"gopkg.in/yaml.v3"
)

// inputKey matches the keys whose values are paths of files that a run reads.
var inputKey = regexp.MustCompile(`(path|paths|tokenizer_model)$`)

// HashInputs returns the SHA-256 of the files and folders that a configuration names: weights, texts, demonstrations,
// tokenizers. Paths that do not exist are left out.
func HashInputs(config []byte) (map[string]string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(config, &root); err != nil {
		return nil, err
	}
	hashes := map[string]string{}
	var walk func(key string, y *yaml.Node) error
	walk = func(key string, y *yaml.Node) error {
		for i, below := range y.Content {
			if y.Kind == yaml.MappingNode {
				if i%2 == 0 {
					continue
				}
				key = y.Content[i-1].Value
			}
			if err := walk(key, below); err != nil {
				return err
			}
		}
		if y.Kind != yaml.ScalarNode || y.Value == "" || key == "log_path" || !inputKey.MatchString(key) {
			return nil
		}
		hash, err := HashPath(y.Value)
		if err == nil {
			hashes[y.Value] = hash
		} else if os.IsNotExist(err) {
			err = nil
		}
		return err
	}
	return hashes, walk("", &root)
}

// HashPath returns the SHA-256 of a file, or of the names and the contents of all files in a folder. It follows links.
func HashPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path) // WalkDir would not enter a link to a folder
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(name) // of a link's file
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		if relative, err := filepath.Rel(path, name); err == nil && relative != "." {
			fmt.Fprintln(sum, relative)
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
