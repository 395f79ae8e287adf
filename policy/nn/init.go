package nn

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/internal/philox"
)

// Orthogonal fills w, [rows,columns], with gain times a random matrix. If rows ≥ columns, the columns of this matrix
// are orthonormal; otherwise its rows are. Tensors with the same seed must have different keys.
//
// The matrix is the Q of the QR decomposition of a standard normal matrix, with a positive diagonal of R. Such a Q is
// uniformly distributed (Mezzadri 2007, "How to generate random matrices from the classical compact groups"). Saxe,
// McClelland and Ganguli 2014, arXiv:1312.6120, proposed this initialisation.
func Orthogonal[T Float](w []T, rows, columns int, gain float64, seed, key uint64) {
	if len(w) != rows*columns {
		panic(fmt.Sprintf("nn: %d elements for an orthogonal [%d,%d]", len(w), rows, columns))
	}
	count, length := min(rows, columns), max(rows, columns)
	q := normals(count*length, philox.New(seed, philox.Init, key, 0))
	for i := range count {
		v := q[i*length : (i+1)*length]
		for range 2 { // rounding makes Gram-Schmidt lose orthogonality; a second pass restores it (Giraud et al. 2005)
			for j := range i {
				u := q[j*length : (j+1)*length]
				subtract(v, u, dot(u, v))
			}
		}
		scale(v, 1/math.Sqrt(dot(v, v)))
	}
	for i := range count {
		for j, x := range q[i*length : (i+1)*length] {
			if rows >= columns {
				w[j*columns+i] = T(gain * x) // vector i is column i
			} else {
				w[i*columns+j] = T(gain * x)
			}
		}
	}
}

func normals(n int, s philox.Stream) []float64 {
	x := make([]float64, n+n%2)
	for i := 0; i < n; i += 2 {
		x[i], x[i+1] = s.Normal()
	}
	return x[:n]
}

func dot(x, y []float64) float64 {
	var s float64
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

func subtract(x, y []float64, a float64) {
	for i := range x {
		x[i] -= a * y[i]
	}
}

func scale(x []float64, a float64) {
	for i := range x {
		x[i] *= a
	}
}
