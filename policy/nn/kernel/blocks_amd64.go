package kernel

// With AVX2, products of at most fewRows256 rows take panels of wideColumns256 columns, so that
// enough sums are computed in parallel.
const fewRows256, wideColumns256 = 2, 32

// stridedSIMD is strided in vector code. The argument add has the addends, and ahead is the distance.
func stridedSIMD(c []float32, cStep int, s origin, a []float32, aRow, aCol int, b []float32, bStep, m, n,
	k int, add []origin, ahead int) {
	if m == 0 || n == 0 {
		return
	}
	t := panel{
		start: &zeros[0], cStep: 4 * cStep, aStep: 4 * aRow, aCol: 4 * aCol, bStep: 4 * bStep, m: m, k: k,
		ahead: 4 * ahead * bStep, addends: len(add),
	}
	if k > 0 {
		t.a = &a[0]
	}
	for j, columns := 0, 0; j < n; j += columns {
		columns = panelColumns(n - j)
		if best == avx2 && m <= fewRows256 && n-j >= wideColumns256 {
			columns = wideColumns256
		}
		t.c, t.added = &c[j], 0
		if k > 0 {
			t.b = &b[j]
		}
		if s.data != nil {
			t.start, t.startStep = &s.data[j], 4*s.step
		}
		for i, o := range add {
			t.add[i] = addend{&o.data[j], 4 * o.step}
		}
		t.run(columns)
	}
}

// pagesSIMD is Multiplier.Pages for AVX-512.
func pagesSIMD(c []float32, cStep int, a []float32, aRow int, pages [maxPages][]float32, m, k int) {
	t := panel{
		c: &c[0], a: &a[0], b: &pages[0][0], start: &zeros[0], cStep: 4 * cStep, aStep: 4 * aRow, aCol: 4, m: m, k: k,
		whole: 1, mask512: 1<<pageColumns - 1,
	}
	for i, p := range pages[1:] {
		if p == nil {
			p = pages[0] // its result is not used
		}
		t.pages[i] = &p[0]
	}
	pages512x4(&t)
}

// packSIMD transposes b into the first rows and columns of dst. rows and columns are multiples of 8. A row of dst has w
// elements, and rows of b begin step elements apart.
func packSIMD(dst, b []float32, step, rows, w, columns int) {
	if columns == 0 {
		return
	}
	for p := 0; p < rows; p += 8 {
		transpose8(&dst[p*w], &b[p], 4*w, 4*step, columns/8)
	}
}
