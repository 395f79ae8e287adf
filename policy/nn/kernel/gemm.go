package kernel

// Gemm computes C = A·B, or C += A·B with acc, for A [m,k], B [k,n] and C [m,n].
func Gemm[T Float](c, a, b []T, m, n, k int, acc bool) {
	checkLen("gemm", "c", len(c), m, n)
	checkLen("gemm", "a", len(a), m, k)
	checkLen("gemm", "b", len(b), k, n)
	product(c, b, &matrix[T]{a, k, 1}, &start[T]{acc: acc}, m, n, k)
}

// GemmBias computes C = A·B + bias, for A [m,k], B [k,n], bias [n] and C [m,n]. It adds the bias to every row. The sum
// begins with the bias.
func GemmBias[T Float](c, a, b, bias []T, m, n, k int) {
	checkLen("gemm bias", "c", len(c), m, n)
	checkLen("gemm bias", "a", len(a), m, k)
	checkLen("gemm bias", "b", len(b), k, n)
	checkLen("gemm bias", "bias", len(bias), 1, n)
	product(c, b, &matrix[T]{a, k, 1}, &start[T]{bias: bias}, m, n, k)
}

// GemmTA computes C = Aᵀ·B, or C += Aᵀ·B with acc, for A [k,m], B [k,n] and C [m,n]. It adds up the k rows in order. If
// A and B have the k rows of a batch, C is the gradient of the weights.
func GemmTA[T Float](c, a, b []T, m, n, k int, acc bool) {
	checkLen("gemm ta", "c", len(c), m, n)
	checkLen("gemm ta", "a", len(a), k, m)
	checkLen("gemm ta", "b", len(b), k, n)
	product(c, b, &matrix[T]{a, 1, m}, &start[T]{acc: acc}, m, n, k)
}

// A matrix is the left factor of a product: element (i,p) is data[i·row + p·col].
type matrix[T Float] struct {
	data     []T
	row, col int
}

// A start has the initial values of a product: C itself if acc is set, otherwise the bias for every row of C, or 0 if
// bias is nil.
type start[T Float] struct {
	acc  bool
	bias []T
}

// product computes C [m,n] = start + A·B, where A has m rows and k columns, and B is [k,n].
func product[T Float](c, b []T, a *matrix[T], s *start[T], m, n, k int) {
	if vectors(c) {
		productSIMD(float32s(c), float32s(b), &matrix[float32]{float32s(a.data), a.row, a.col},
			&start[float32]{s.acc, float32s(s.bias)}, m, n, k)
		return
	}
	for i := range m {
		row := c[i*n : (i+1)*n]
		switch {
		case s.acc:
		case s.bias != nil:
			copy(row, s.bias)
		default:
			clear(row)
		}
		addRow(row, b, a.data[min(i*a.row, len(a.data)):], a.col, k)
	}
}

// addRow adds Σ_p a[p·col]·b[p,:] to row. p runs from 0 to k-1 in order.
func addRow[T Float](row, b, a []T, col, k int) {
	n := len(row)
	p := 0
	for ; p+4 <= k; p += 4 { // four steps of p per pass over row
		a0, a1, a2, a3 := a[p*col], a[(p+1)*col], a[(p+2)*col], a[(p+3)*col]
		b0, b1, b2, b3 := b[p*n:][:n], b[(p+1)*n:][:n], b[(p+2)*n:][:n], b[(p+3)*n:][:n]
		for j, v := range row {
			v += a0 * b0[j]
			v += a1 * b1[j]
			v += a2 * b2[j]
			v += a3 * b3[j]
			row[j] = v
		}
	}
	for ; p < k; p++ {
		ap, bp := a[p*col], b[p*n:][:n]
		for j := range row {
			row[j] += ap * bp[j]
		}
	}
}
