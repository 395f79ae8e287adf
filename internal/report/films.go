package report

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/video"
)

// A Film is an animated PNG file of an evaluation.
type Film struct {
	Name  string // of the file, without its extension
	Every int    // the page has one frame of so many; 1: all
	PNG   []byte
}

// Sizes of films on a page.
const (
	mostFilm   = 1 << 20 // bytes of a film
	mostFilms  = 4 << 20 // bytes of all
	shownFilms = 4
)

// filmsOf returns the folder of the run's films, and that of the run.
func filmsOf(dir string, settings []Setting) string {
	if own := setting(settings, "env.eval.video_cfg.video_base_dir"); own != "" {
		return own
	}
	return filepath.Join(dir, "videos")
}

// readFilms returns the first and the newest film in the folder dir, and some between them. Larger films lose frames.
// unseen names the others, and problems those that are damaged.
func readFilms(dir string) (films []Film, unseen, problems []string) {
	var paths []string
	for _, kind := range []string{"png", "gif", "mp4", "webm"} {
		found, err := filepath.Glob(filepath.Join(results.EscapeGlob(dir), "*."+kind))
		if err != nil {
			return nil, nil, []string{err.Error()}
		}
		if kind == "png" {
			paths = found
		} else if len(found) > 0 {
			unseen = append(unseen, fmt.Sprintf("%s: %s of the format %s", dir, count(len(found), "film", "films"),
				kind))
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if d := stepOf(a) - stepOf(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	shown := min(len(paths), shownFilms)
	if len(paths) > shown {
		unseen = append(unseen, fmt.Sprintf("%s: %s", dir, count(len(paths)-shown, "more film", "more films")))
	}
	size := 0
	for i := range shown {
		path := paths[i*(len(paths)-1)/max(shown-1, 1)]
		film, err := readFilm(path)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v.", path, err))
			continue
		}
		if size += len(film.PNG); size > mostFilms {
			unseen = append(unseen, fmt.Sprintf("%s: the page has no room for it", path))
			continue
		}
		films = append(films, film)
	}
	return films, unseen, problems
}

// readFilm reads a film. If it is large, it keeps every n-th frame.
func readFilm(path string) (Film, error) {
	f := Film{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Every: 1}
	text, err := durable.ReadFile(path)
	if err != nil {
		return f, err
	}
	if _, err := video.Check(text); err != nil {
		return f, err
	}
	for f.PNG = text; len(f.PNG) > mostFilm; {
		f.Every = max(f.Every+1, f.Every*len(f.PNG)/mostFilm)
		if f.PNG, err = video.Thin(text, f.Every); err != nil {
			return f, err
		}
		if f.Every > 1000 {
			return f, fmt.Errorf("a frame is larger than %d MiB", mostFilm>>20)
		}
	}
	return f, nil
}

// stepOf returns the iteration in the name of a film, global_step_N.png; 0 if it has none.
func stepOf(path string) int {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
	if err != nil {
		return 0
	}
	return n
}

// filmData is a film as the page's document has it. Its picture stands in an element of its own, in base64.
type filmData struct {
	Name  string `json:"name"`
	Every int    `json:"every"`
	Bytes int    `json:"bytes"`
}

// encode returns the film as text for the page.
func (f *Film) encode() []byte { return base64.StdEncoding.AppendEncode(nil, f.PNG) }
