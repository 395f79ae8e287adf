package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/video"
)

// An EvaluationFilm is an animated PNG file of an evaluation.
type EvaluationFilm struct {
	Name  string // name of the file, without its extension
	Every int    // the page has only every n-th frame
	PNG   []byte
}

// Limits of the films on a page.
const (
	mostFilm   = 1 << 20   // bytes of a film
	mostFilms  = 4 << 20   // bytes of all films
	mostFile   = 256 << 20 // bytes of a film's file; the file of a longer film is not read
	shownFilms = 4
)

// readFilms reads the first and the newest film of the run, and some between them. It leaves out frames of large films.
func (r *Run) readFilms() {
	dir := cmp.Or(r.setting("env.eval.video_cfg.video_base_dir"), r.path("videos"))
	unseen := func(format string, args ...any) { r.Unseen = append(r.Unseen, fmt.Sprintf(format, args...)) }
	var paths []string
	for _, kind := range []string{"png", "gif", "mp4", "webm"} {
		found, err := filepath.Glob(filepath.Join(results.EscapeGlob(dir), "*."+kind))
		if err != nil {
			r.problem("%v", err)
			return
		}
		if kind == "png" {
			paths = found
		} else if len(found) > 0 {
			unseen("%s: %s of the format %s", dir, count(len(found), "film", "films"), kind)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(stepOf(a)-stepOf(b), strings.Compare(a, b)) })
	shown := min(len(paths), shownFilms)
	if len(paths) > shown {
		unseen("%s: %s", dir, count(len(paths)-shown, "more film", "more films"))
	}
	size := 0
	for i := range shown {
		path := paths[i*(len(paths)-1)/max(shown-1, 1)]
		film, err := readEvaluationFilm(path)
		if err != nil {
			r.problem("%s: %v.", path, err)
			continue
		}
		if size += len(film.PNG); size > mostFilms {
			unseen("%s: the page has no room for this film", path)
			continue
		}
		r.Films = append(r.Films, film)
	}
}

// readEvaluationFilm reads a film. If the film is large, readEvaluationFilm keeps only every n-th frame.
func readEvaluationFilm(path string) (EvaluationFilm, error) {
	f := EvaluationFilm{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Every: 1}
	text, err := durable.ReadFile(path, mostFile)
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

// stepOf returns the iteration in the name of a film, global_step_N.png, or 0 if the name has none.
func stepOf(path string) int {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
	if err != nil {
		return 0
	}
	return n
}

// filmData is a film in the page's document. The PNG file is in a separate element, in base64.
type filmData struct {
	Name  string `json:"name"`
	Every int    `json:"every"`
	Bytes int    `json:"bytes"`
}
