package sweep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/roles/config"
)

// mistakes collects the mistakes in all points of a grid. Each mistake is reported once.
type mistakes struct {
	texts  []string
	points map[string][]string // the points with each mistake
}

// add adds the mistakes of a point.
func (m *mistakes) add(point string, err error) {
	if m.points == nil {
		m.points = map[string][]string{}
	}
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if m.points[text] == nil {
			m.texts = append(m.texts, text)
		}
		m.points[text] = append(m.points[text], point)
	}
}

// err returns all mistakes as a usage error; nil if there are none. total is the number of points.
func (m *mistakes) err(total int) error {
	var errs []error
	for _, text := range m.texts {
		switch points := m.points[text]; {
		case len(points) == total: // independent of the point
		case len(points) == 1:
			text += fmt.Sprintf(" [%s]", points[0])
		default:
			text += fmt.Sprintf(" [%s and %d more points]", points[0], len(points)-1)
		}
		errs = append(errs, errors.New(text))
	}
	if errs == nil {
		return nil
	}
	return config.UsageError{Err: errors.Join(errs...)}
}
