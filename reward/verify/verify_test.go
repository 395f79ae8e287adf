package verify

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Each line has texts of one answer, between " ~ ". Every pair is equal, in both orders.
const same = `
\frac{1}{2} ~ 0.5 ~ 1/2 ~ .5 ~ \frac12 ~ \dfrac{1}{2} ~ \tfrac12 ~ 0.50 ~ ½ ~ $\frac{1}{2}$ ~ \frac{2}{4} ~ 2^{-1} ~ 0.5.
\frac{\sqrt2}{2} ~ 1/\sqrt2 ~ \frac{\sqrt{2}}{2} ~ \frac{1}{\sqrt{2}} ~ sqrt(2)/2 ~ √2/2 ~ 2^{-1/2} ~ \sin 45^\circ ~ \cos\frac{\pi}{4} ~ \sqrt{0.5}
1{,}000 ~ 1000 ~ 1,000 ~ 1,\!000 ~ 1\,000 ~ 10^3 ~ 10^{3} ~ 1000. ~ 1 \times 10^{3} ~ 1 \text{ thousand}
1,234,567.8 ~ 1234567.80 ~ \$1,234,567.8
(1,2) ~ (1, 2) ~ \left(1,2\right) ~ ( 1 , \frac{4}{2} ) ~ (x, y) = (1, 2)
[0, 1) ~ [0,\frac{2}{2}) ~ x \in [0, 1) ~ \left[ 0, 1 \right)
(-\infty, 3] ~ (-∞,3] ~ (-infinity, 3]
(-\infty,1)\cup(2,3] ~ (2, 3] ∪ (-\infty, 1)
x=3 ~ 3 ~ x = 3 ~ 3 ~ +3
k = 3 ~ 3
3 = x ~ x = 3
x_1 = 3 ~ 3
f^{-1}(x) = 2x+1 ~ 2x+1
\angle A = 70^\circ ~ 70
f(x) = 2x+1 ~ 2x+1 ~ 1 + x\cdot 2
y = 2x - 1 ~ 2x-1
AB = 5 ~ 5
2^{10} ~ 1024 ~ 2^10 ~ 4^5 ~ 2**10
50\% ~ 50 ~ 50% ~ 50 \text{ percent}
90^\circ ~ 90 ~ 90° ~ 90^{\circ} ~ 90\text{ degrees} ~ 90\degree
\frac{180^\circ}{7} ~ \frac{180}{7} ~ \frac{180}{7}^\circ
5\text{ cm} ~ 5 ~ 5 cm ~ 5 \mathrm{~cm} ~ 5 \text{ centimeters} ~ 5\,\text{cm}
5 \text{ m} ~ 5 \text{ meters} ~ 5 ~ 5 \mathrm{m}
12\text{ cm}^2 ~ 12 \text{ square centimeters} ~ 12 ~ 12 \text{ sq cm} ~ 12\text{ cm}^{2}
60 \text{ miles per hour} ~ 60 mph ~ 60 \text{ mi}/\text{h} ~ 60
12 \text{ apples} ~ 12 ~ 12 apples ~ 12 \text{ units}
\$5 ~ 5 ~ 5 \text{ dollars} ~ 5.00 ~ \$5.00
3 \text{ million} ~ 3{,}000{,}000 ~ 3 million
1\frac{1}{2} ~ 3/2 ~ 1 1/2 ~ 1.5 ~ 1½
-1\frac{1}{2} ~ -1.5 ~ -\frac32
0.\overline{3} ~ \frac13
0.1\overline{6} ~ \frac16
2.\overline{09} ~ \frac{23}{11}
\sqrt{8} ~ 2\sqrt{2} ~ 2\sqrt2 ~ \sqrt2\cdot2
\sqrt[3]{8} ~ 2 ~ 8^{1/3}
\sqrt[3]{-8} ~ -2 ~ (-8)^{1/3}
\sqrt[3]{54} ~ 3\sqrt[3]{2}
\sqrt{10^{200}} ~ 10^{100}
\frac{1}{\sqrt3+\sqrt2} ~ \sqrt3-\sqrt2
\sqrt{3+2\sqrt2} ~ 1+\sqrt2
\frac{\pi}{6} ~ \pi/6 ~ \frac16\pi ~ π/6 ~ \arcsin\frac12 ~ \sin^{-1}(1/2) ~ \frac{3\pi}{18}
\frac{\pi}{4} ~ \arctan 1
\frac{2\pi}{3} ~ \arccos(-\frac12)
0 ~ \sin\pi ~ \ln 1 ~ -0 ~ \cos\frac{\pi}{2} ~ \sqrt2-\sqrt2
\frac{1}{4} ~ \sin^2 30^\circ ~ (\sin 30^\circ)^2
2\sin x\cos x ~ \sin 2x ~ \sin(2x)
1 ~ \sin^2 x+\cos^2 x ~ \tan 45^\circ ~ 0! ~ \ln e
\sec x ~ \frac{1}{\cos x}
\log_2 8 ~ 3
\ln(ab) ~ \ln a+\ln b
\log_3 5 ~ \frac{\log 5}{\log 3} ~ \frac{\ln 5}{\ln 3}
e^{i\pi} ~ -1 ~ i^2 ~ e^{\pi i}
3+4i ~ 4i+3
\frac{1}{1+i} ~ \frac{1-i}{2}
\sqrt{-4} ~ 2i
|3+4i| ~ 5 ~ |-5| ~ \left|-5\right|
e^x ~ \exp(x) ~ \exp x
(x+1)^2 ~ x^2+2x+1 ~ x^{2}+2x+1
(x+1)^{100} ~ (1+x)^{100}
\frac{x^2-1}{x-1} ~ x+1
\sqrt{x^2} ~ |x| ~ \lvert x \rvert
\sqrt{ab} ~ \sqrt a\sqrt b
x^2y ~ yx^2 ~ x\cdot x\cdot y
2|x||y| ~ 2|xy|
15, 15 \text{ cm} ~ 15 \text{ cm}, 15\text{ m}
|(3|x|)| ~ 3|x|
(-1)^n ~ (-1)^{n+2} ~ \cos(n\pi) + 0(-1)^n
(n+1)! ~ (n+1)\cdot n!
\binom{10}{3} ~ 120 ~ \frac{10!}{3! 7!}
\binom{n}{2} ~ \frac{n(n-1)}{2} + 0 n!
a_n ~ a_{n}
6abc ~ 6cba
\theta ~ θ
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{bmatrix}1&\frac{4}{2}\\3&4\\\end{bmatrix} ~ \left(\begin{array}{cc}1&2\\3&4\end{array}\right)
\begin{pmatrix} -1 \\ x+1 \end{pmatrix} ~ \begin{pmatrix} -1 \\ 1+x \end{pmatrix}
\langle 1, 2 \rangle ~ \left\langle 1,\; 2 \right\rangle ~ ⟨1,2⟩
1, 2 ~ 2, 1 ~ 1 \text{ and } 2 ~ 1 or 2 ~ x = 1, 2 ~ x = 1, x = 2 ~ x=1 \text{ or } x=2 ~ \{1, 2\}
\pm 2 ~ 2, -2 ~ x = \pm 2 ~ -2, 2 ~ x = 2, x = -2 ~ \mp2
\frac{1\pm\sqrt5}{2} ~ \frac{1-\sqrt5}{2}, \frac{1+\sqrt5}{2}
x = 1, y = 2 ~ y = 2, x = 1
100, 200 ~ 100,200
1,2,3 ~ 3, 2, 1
y = 2x+1 ~ 2x - y + 1 = 0 ~ 2x+1 = y ~ y-2x-1=0
x^2+y^2=4 ~ 4 = y^2+x^2 ~ 4-x^2-y^2=0
x > 3 ~ 3 < x ~ 0 < x-3
1 \le x < 3 ~ 3 > x \geq 1 ~ 1 ≤ x < 3 ~ 1 <= x < 3
x \ne 2 ~ 2 \neq x
\frac{10}{2} = 5 ~ 5
x = \frac{10}{2} = 5 ~ 5 ~ x = 5
A ~ (A) ~ \text{A} ~ \textbf{(A)}
D ~ d
(B) 12 ~ B ~ \text{(B) } 12 ~ \textbf{(B)}\ 12
C. 5 ~ C
E: 7 ~ (E)
\text{Monday} ~ Monday ~ monday ~ \text{ monday }
\text{yes} ~ yes ~ \textbf{Yes}
\text{5} ~ 5 ~ \text{5 cm}
X ~ x
1/2x ~ 1/2 x
\text{the cat} ~ The Cat ~ THE CAT
3:2 ~ 3 : 2
(100,200) ~ (100, \frac{400}{2})
\lg 1000 ~ 3
\cot 45^\circ ~ \csc 90^\circ ~ -\sec\pi
\tan 60^\circ ~ \sqrt 3 ~ \tan\frac\pi3
x \lt 4 ~ x < 4 ~ 4 \gt x
\lbrace 1, 7 \rbrace ~ \{7, 1\} ~ 1 \text{, or } 7 ~ 7; 1
6 \div 4 ~ 3/2
2\cdot -3 ~ -6 ~ 2 \times (-3)
2^-2 ~ \frac14 ~ 2^{-2}
(7, 8) = (x, y) ~ (x, y) = (7, 8)
\frac{\pi}{2} ~ \arcsin 1 ~ -\arcsin(-1) ~ \arccos 0
13 \text{ cm}^3 ~ 13 \text{ cubic centimeters}
14\text{ m} < x ~ 14 < x
|1+i| ~ \sqrt 2
\sqrt[4]{9} ~ \sqrt 3 ~ 3^{0.5}
\sqrt{x^2 + 2x + 1} ~ |x+1|
y' ~ y '
x^{-1} ~ \frac1x
\log_{a}b ~ \frac{\ln b}{\ln a}
\mathbb{R} ~ \mathbb{ R }
1011_2 ~ 1011 _ 2
`

// Each line has texts of different answers. No pair is equal, in either order.
const different = `
(1,2) ~ [1,2] ~ (1,2] ~ [1,2) ~ (2,1) ~ \langle 1, 2 \rangle ~ 1, 2 ~ 12 ~ \begin{pmatrix} 1 \\ 2 \end{pmatrix}
0.333 ~ 1/3 ~ 0.3333333333 ~ 0.34
50\% ~ 0.5 ~ 5000 ~ 50^\circ
1{,}000 ~ 1 ~ 1, 0 ~ 10
1,234 ~ 234, 1
11/2 ~ 1 1/2
2\frac{1}{2} ~ 1 ~ 21/2
3.14 ~ \pi ~ \frac{22}{7} ~ 3.14159265358979323846264338327950288419716939937510
1.41421356237309504880168872420969807856967187537694807317667973799 ~ \sqrt2
e^{\pi\sqrt{163}} ~ 262537412640768744
1+10^{-60} ~ 1 ~ 1-10^{-60}
\pi ~ \pi + 10^{-60}
2^{100000} ~ 2^{100000}+1
\pi^{1000} ~ \pi^{1000}+1
10^{200}\pi ~ 10^{200}\pi+1
2^{10} ~ 210 ~ 2\cdot 10 ~ 1023
-3 ~ 3 ~ \pm 3
x=3 ~ y=3
x=3 ~ x=-3
xy = 3 ~ 3
f(2) = 3 ~ 3
x = 1, y = 2 ~ x = 2, y = 1
x = 2, y = 1 ~ 1, 2
5\text{ cm} ~ 5 \text{ m} ~ 5 \text{ cm}^2 ~ 5 \text{ inches} ~ 5\%
5 \text{ dollars} ~ 5 \text{ cents}
5 \text{ million} ~ 5 ~ 5 \text{ thousand}
5 \text{ halves} ~ 5
3 \text{ (mod } 7) ~ 3
5 \text{ remainder } 2 ~ 5 ~ 52
5x ~ 5
5m ~ 5
x ~ |x| ~ -x ~ x^2 ~ \sqrt{x} ~ X+0
\sqrt{x^2} ~ x
\sqrt{-x^2-1} ~ \sqrt{-x^2-2}
x+y ~ x-y ~ xy ~ x ~ y
\frac{GMm}{r^2} ~ \frac{Gm^2}{r^2} ~ \frac{GM^2}{r^2}
\frac{GMm}{r^2} ~ \frac{Gmm}{r^2}
nRT ~ NRT
Gm ~ GM
\Delta ~ \delta
(x+1)^2 ~ x^2+1
x^{100} ~ x^{100}+1
(-1)^n ~ 1 ~ -1 ~ (-1)^{n+1}
n! ~ (n-1)! ~ n^n
\sin x ~ \cos x ~ x ~ \sin^{-1} x ~ \frac{1}{\sin x}
\ln x ~ \log_2 x ~ \log x
\sin 30 ~ \sin 30^\circ
1/2x ~ \frac{x}{2} ~ \frac{1}{2x}
\sin x/2 ~ \sin(x/2) ~ \frac{\sin x}{2}
\frac10 ~ \frac20 ~ 0
0^0 ~ 1
3+4i ~ 3-4i ~ 5 ~ 7
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix} ~ \begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}
1, 2 ~ 1, 2, 2 ~ 1, 1, 2 ~ 1 ~ 1, 3
\{3\} ~ 3
(-\infty,1)\cup(2,3] ~ (-\infty,1)\cup[2,3] ~ (-\infty,1) ~ (\infty,1)\cup(2,3]
y = 2x+1 ~ y = 2x-1 ~ 2y = x+1
y = 2x+1 ~ 2x
x > 3 ~ x < 3 ~ x \ge 3 ~ x = 3
1 \le x < 3 ~ 1 < x < 3 ~ 1 \le x \le 3
x < 5 \text{ m} ~ x < 5 \text{ cm}
5 \text{ m} < x ~ 5 \text{ cm} < x
5\text{ m} = x ~ x = 5 \text{ cm}
13 \text{ cm}^3 ~ 13 \text{ cm}^2
|x+y| ~ x+y
x = 10/2 = 4 ~ 4 ~ 5
A ~ B ~ (C) ~ AB ~ 5
(A) \text{ and } (C) ~ A ~ C
(A) 5 ~ (A) 6
(A)(B) ~ A
(A)+1 ~ A
(A)^2 ~ A
\text{Monday} ~ \text{Tuesday} ~ \text{Mondayy}
\text{dear} ~ \text{read}
ten ~ net
to get her ~ together
1 2 ~ 12
2e3 ~ 2000
x2 ~ 2x
3:2 ~ 2:3 ~ 3/2
1011_2 ~ 1011 ~ 11
`

func TestEqual(t *testing.T) {
	pairs(t, same, func(a, b string) {
		if !Equal(a, b) {
			t.Errorf("%s and %s differ", a, b)
		}
	})
}

func TestDifferent(t *testing.T) {
	pairs(t, different, func(a, b string) {
		if a != b && Equal(a, b) {
			t.Errorf("%s and %s are equal", a, b)
		}
	})
}

// pairs calls f for all ordered pairs of each line.
func pairs(t *testing.T, table string, f func(a, b string)) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) < 60 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		texts := strings.Split(line, " ~ ")
		if len(texts) < 2 {
			t.Fatalf("one text in %q", line)
		}
		for _, a := range texts {
			for _, b := range texts {
				f(a, b)
			}
		}
	}
}

// Products of tables must not be equal by chance: first texts of all lines of one table differ.
func TestLinesDiffer(t *testing.T) {
	var first []string
	var answers []*answer
	for _, line := range strings.Split(strings.TrimSpace(same), "\n") {
		text, _, _ := strings.Cut(line, " ~ ")
		first, answers = append(first, text), append(answers, read(text))
	}
	// Lines that show another form of the answer of an earlier one.
	again := []string{"k = 3", "3 = x", "x_1 = 3", "AB = 5", `f(x) = 2x+1`, `5 \text{ m}`, `\$5`, `\frac{10}{2} = 5`,
		`x = \frac{10}{2} = 5`, `\log_2 8`, `|3+4i|`,
		`5\text{ cm}`, `\text{5}`, `12\text{ cm}^2`, `x=3`, `12 \text{ apples}`, `\lg 1000`, `\cot 45^\circ`,
		`6 \div 4`, `|1+i|`, `\sqrt[4]{9}`, `\tan 60^\circ`, `2^-2`}
	for i, a := range first {
		for j, b := range first[:i] {
			if !slices.Contains(again, a) && equalAnswers(answers[i], answers[j]) {
				t.Errorf("%s and %s are equal", a, b)
			}
		}
	}
}

func TestGrade(t *testing.T) {
	tests := []struct {
		response  string
		solutions []string
		want      Grading
	}{
		{`So \boxed{\frac{1}{2}}.`, []string{"0.5"}, Grading{Right, `\frac{1}{2}`}},
		{`So \boxed{ 3 }`, []string{"2", "3"}, Grading{Right, "3"}},
		{`So \boxed{3}`, []string{`\boxed{3}`}, Grading{Right, "3"}},
		{`So \boxed{3}`, []string{`Thus \boxed{2}`, `no box 3`}, Grading{Wrong, "3"}},
		{`So \boxed{4}`, []string{"2", "3"}, Grading{Wrong, "4"}},
		{`So \boxed{4}`, nil, Grading{Wrong, "4"}},
		{`So \boxed{4}`, []string{"", `\boxed{4`, `\boxed{}`}, Grading{Wrong, "4"}},
		{`First \boxed{3}, then \boxed{4}`, []string{"3"}, Grading{Wrong, "4"}}, // the last counts
		{`First \boxed{3}, then \boxed{4}`, []string{"4"}, Grading{Right, "4"}},
		{`First \boxed{3}, then \boxed{4`, []string{"3"}, Grading{}}, // cut off
		{`First \boxed{3}, then \boxed{}`, []string{"3"}, Grading{}},
		{`\boxed{}`, []string{"", `\boxed{}`}, Grading{}},
		{`\boxed{ \, }`, []string{"", `\,`}, Grading{Unparsable, `\,`}},
		{`The answer is 3`, []string{"3"}, Grading{}}, // no fallback to the last number
		{`boxed{3}`, []string{"3"}, Grading{}},
		{``, []string{""}, Grading{}},
		{`\boxed`, []string{""}, Grading{}},
		{`\boxed{\boxed{3}}`, []string{"3"}, Grading{Right, "3"}},
		{`\boxed{\{1, 2\}}`, []string{"2, 1"}, Grading{Right, `\{1, 2\}`}},
		{`\boxed{\frac{1}{\sqrt{2}}} and }`, []string{`\frac{\sqrt2}{2}`}, Grading{Right, `\frac{1}{\sqrt{2}}`}},
		{`$\boxed 42$ is it`, []string{"42"}, Grading{Right, "42"}},
		{"\\boxed 42\nand 43", []string{"42"}, Grading{Right, "42"}},
		{`\boxed{\text{Monday}}`, []string{"Tuesday"}, Grading{Wrong, `\text{Monday}`}},
		{`\boxed{(C) 12}`, []string{"C"}, Grading{Right, "(C) 12"}},
		{`\boxed{(C) 12}`, []string{"D"}, Grading{Wrong, "(C) 12"}},
		{`\boxed{1 +}`, []string{"1"}, Grading{Unparsable, "1 +"}},
		{`\boxed{1 +}`, []string{"1+"}, Grading{Right, "1 +"}}, // the same text
		{`\boxed{\foo{3}}`, []string{"3"}, Grading{Unparsable, `\foo{3}`}},
		{`\boxed{` + strings.Repeat("1", maxBytes+1) + `}`, []string{strings.Repeat("1", maxBytes+1)},
			Grading{Unparsable, strings.Repeat("1", maxBytes+1)}},
	}
	for _, c := range tests {
		if got := Grade(c.response, c.solutions); got != c.want {
			t.Errorf("Grade(%.60q, %q) = %v %q, want %v %q", c.response, c.solutions, got.Outcome, got.Answer,
				c.want.Outcome, c.want.Answer)
		}
	}
}

// Answers beyond a limit have no tree. Answers with too large a value have a tree, and equal only the same text.
func TestLimits(t *testing.T) {
	r := strings.Repeat
	for _, text := range []string{
		r("(", 2000), r("{", 2000), r("[", 2000), r("|", 2000), r("-", 2000), r("^", 2000), r("x^", 1000) + "2",
		r(`\sqrt`, 400), r(`\frac`, 400) + "1",
		r("(", 900) + "1" + r(")", 900), r("1+", maxNodes) + "1", r("9", maxDigits+1), r(`\sin`, 400) + "x",
		r(`\ln x`, maxFunctions+1),
		r(`x^{0.1}`, maxFunctions+1), r("1,", maxItems) + "1", "(" + r("1,", maxItems) + "1)", r(`1&`, 900),
		r(`\pm 1`, 300), r("=", 900), r("x=", 9) + "1",
		r("1", maxBytes+1),
	} {
		if a := read(text); a != nil && a.tree != nil {
			t.Errorf("%.40s… is read", text)
		}
	}
	for _, text := range []string{
		"9^9^9^9", "9^{9^{9^9}}", "2^{2^{2^{2^{2^2}}}}", "10^{10^{10}}", "2^{20000}", "1001!", "10000!", r("1000!", 9),
		`\binom{1001}{500}`,
		`\binom{1000}{500}^{1000}`, `e^{e^{e^{e^e}}}`, `\pi^{\pi^{\pi^{\pi^\pi}}}`, `\pi + 0.` + r("0", 900) + "1",
		`\sqrt[9999999999]{2}`, `\tan 90^\circ`,
		`\sin(10^{70})`, `0.5^{10^{15}}`, `(1+10^{-30})^{10^{30}}\pi`, `\frac{1}{0}`, `0^{-1}`, `\ln 0`, `\ln(-1)`,
		`\arcsin 2`, `(-2)^{\sqrt2}`, `(-1)!`,
	} {
		a := read(text)
		if a == nil || a.tree == nil {
			t.Errorf("%.40s is not read", text)
			continue
		}
		if equalTrees(a.tree, a.tree) || !Equal(text, text) || Equal(text, text+"+0") {
			t.Errorf("%.40s has a value", text)
		}
	}
}

// Roots of squares differ from their variables, and signs of different variables are different.
func TestSigns(t *testing.T) {
	names := strings.Split("abcdfghjklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	for i, a := range names {
		if Equal(`\sqrt{`+a+`^2}`, a) || !Equal(`\sqrt{`+a+`^2}`, "|"+a+"|") {
			t.Errorf("the root of %s²", a)
		}
		b := names[(i+7)%len(names)]
		if Equal("|"+a+"|"+b, a+"|"+b+"|") {
			t.Errorf("|%s|%s and %s|%s| are equal", a, b, a, b)
		}
	}
	for name := range greek {
		if Equal(`\sqrt{\`+name+`^2}`, `\`+name) {
			t.Errorf("the root of %s²", name)
		}
	}
}

// All ways to write a fraction are equal, and those of the next fraction are not.
func TestFractions(t *testing.T) {
	forms := func(above, below int) []string {
		whole, rest := above/below, above%below
		all := []string{fmt.Sprintf(`\frac{%d}{%d}`, above, below), fmt.Sprintf("%d/%d", above, below),
			fmt.Sprintf(`\dfrac{%d}{%d}`, 3*above, 3*below)}
		if rest > 0 && whole > 0 {
			all = append(all, fmt.Sprintf(`%d\frac{%d}{%d}`, whole, rest, below),
				fmt.Sprintf("%d %d/%d", whole, rest, below))
		}
		if decimal, exact := big.NewRat(int64(above), int64(below)).FloatPrec(); exact {
			all = append(all, big.NewRat(int64(above), int64(below)).FloatString(decimal+2))
		}
		return all
	}
	for below := 1; below < 12; below++ {
		for above := 1; above < 40; above += 3 {
			these, next := forms(above, below), forms(above+1, below)
			for _, a := range these {
				for _, b := range these {
					if !Equal(a, b) || !Equal("-"+a, "-"+b) {
						t.Errorf("%s and %s differ", a, b)
					}
				}
				for _, b := range next {
					if Equal(a, b) || Equal(a, "-"+a) {
						t.Errorf("%s and %s are equal", a, b)
					}
				}
			}
		}
	}
}

// The functions agree with values from outside to 60 digits: Python's mpmath with mp.dps = 150.
func TestFunctions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`\pi`, "3.14159265358979323846264338327950288419716939937510582097494"},
		{"e", "2.71828182845904523536028747135266249775724709369995957496697"},
		{`\ln 2`, "0.69314718055994530941723212145817656807550013436025525412068"},
		{`\sqrt2`, "1.41421356237309504880168872420969807856967187537694807317668"},
		{`\sin 1`, "0.841470984807896506652502321630298999622563060798371065672752"},
		{`\cos 2`, "-0.41614683654714238699756822950076218976600077107554489075515"},
		{`\cos(10^9)`, "0.837887181363902334389775643551572356059576948088117878584601"},
		{`\arctan 2`, "1.10714871779409050301706546017853704007004764540143264667654"},
	} {
		got := read(c.text).tree.atPoints().at(0).realPart()
		want, _, err := big.ParseFloat(c.want, 10, precision, big.ToNearestEven)
		test.OK(t, err)
		if d, _ := new(big.Float).Sub(got, want).Float64(); d < -1e-59 || d > 1e-59 {
			t.Errorf("%s differs from %s by %g", c.text, c.want, d)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	if got := fmt.Sprint(Unparsable, Wrong, Right); got != "unparsable wrong right" {
		t.Error(got)
	}
}

func FuzzGrade(f *testing.F) {
	for _, line := range strings.Split(same+different+rightForms+nearMisses, "\n") {
		texts := strings.Split(line, " ~ ")
		for i := range texts {
			f.Add(texts[i], texts[(i+1)%len(texts)])
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if Equal(a, b) != Equal(b, a) {
			t.Errorf("%q and %q: the order matters", a, b)
		}
		if x := read(a); x != nil {
			if !Equal(a, a) {
				t.Errorf("%q differs from itself", a)
			}
			if x.tree != nil && x.tree.isValue() {
				again := read(a + "+1")
				if again != nil && again.tree != nil && again.tree.isValue() && x.tree.unit == "" && Equal(a, a+"+1") {
					t.Errorf("%q equals one more", a)
				}
			}
		}
		v := Grade(`\boxed{`+a+`}`, []string{b})
		if v.Outcome == Right && v.Answer == "" {
			t.Errorf("an empty answer is right: %q", a)
		}
	})
}
