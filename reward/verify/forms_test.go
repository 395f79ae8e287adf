package verify

import (
	"strings"
	"testing"
)

// Each line has a solution, and texts that are right. Every text is also tried in all wrappings.
const rightForms = `
10\text{ s}^{-1} ~ 10\,\mathrm{s^{-1}} ~ 10\,\mathrm{s}^{-1} ~ 10\;\mathrm{ s^{-1} }
5\text{ cm}^3 ~ 5\,\mathrm{cm^{3}} ~ 5\,\mathrm{cm}^3 ~ 5\,\mathrm{cm^3} ~ 5\text{ cm³}
3\text{ kg·m/s^2} ~ 3\,\mathrm{kg\,m/s^2} ~ 3\,\mathrm{kg\cdot m/s^{2}} ~ 3\,\mathrm{kg\,m\,s^{-2}} ~ 3\,\mathrm{kg}\,\mathrm{m}\,\mathrm{s}^{-2}
4\text{ m/s} ~ 4\,\mathrm{m}\,\mathrm{s}^{-1} ~ 4\,\mathrm{m\cdot s^{-1}} ~ 4\,\mathrm{m\,s^{-1}} ~ 4\ \mathrm{m}/\mathrm{s} ~ 4\,\mathrm{m/s}
9.8\text{ m/s^2} ~ 9.8\,\mathrm{m\,s^{-2}} ~ 9.8\,\mathrm{m\;s^{-2}}
7\text{ N·m} ~ 7\,\mathrm{N\,m} ~ 7\,\mathrm{N\cdot m} ~ 7\,\mathrm{N}\,\mathrm{m}
5\text{ m} ~ 5\,\rm m ~ 5\,{\rm m} ~ 5{\rm m}
\$5 ~ US\$5 ~ US\$ 5 ~ 5
A\$5 ~ A\$5 ~ 5
₹500 ~ Rs. 500 ~ Rs 500 ~ Rs.500 ~ 500
\$5\text{ million} ~ \$5M ~ \$5 M ~ 5000000
5 ~ \approx 5 ~ := 5 ~ x := 5
\frac13 ~ 0.(3)
\frac{16}{11} ~ 1.(45)
Paris ~ 'Paris' ~ «Paris» ~ „Paris“ ~ 「Paris」 ~ ‘Paris’
2516_8 ~ 2516_{8} ~ {2516}_8 ~ 2516_{{8}} ~ 2516 _ 8 ~ 2516_{ 8 } ~ 2516₈ ~ (2516)_8 ~ （2516）₈ ~ 2516{}_8 ~ 2516_{\text{8}} ~ \mathrm{2516}_8
1011_{2} ~ 1011_2 ~ 1011₂ ~ 1\,011_2
2A_{16} ~ 2A_{16} ~ 2A₁₆ ~ 2A_16
3 \pmod{7} ~ 3 \pmod 7 ~ 3\pmod7 ~ 3 \pmod{ 7 } ~ 3 \pmod{{7}} ~ 3 (\bmod 7) ~ 3 \text{ (mod } 7) ~ 3 (mod 7) ~ 3\ (\mathrm{mod}\ 7) ~ 3 (\mod{7}) ~ 3 （mod 7） ~ 3 \text{ (mod 7)} ~ 3\ (\operatorname{mod}\ 7)
x \equiv 3 \pmod{12} ~ x\equiv 3\pmod{12} ~ x ≡ 3 \pmod{12} ~ x \equiv{3} \pmod{12} ~ x \equiv 3 \pmod {12}
\vec{a} ~ \vec a ~ \vec{ a } ~ \vec{{a}}
\vec{a}+2\vec{b} ~ \vec a+2\vec b ~ \vec a + 2 \vec{b}
\sum_{k=1}^{n} k ~ \sum_{k=1}^n k ~ \sum\limits_{k=1}^n k ~ \sum^n_{k=1} k ~ \sum_{k = 1}^{n}{k} ~ \displaystyle\sum_{k=1}^{n}k ~ ∑_{k=1}^{n} k
\sum_{i=0}^{\infty} \frac{1}{i!} ~ \sum_{i=0}^\infty \frac1{i!} ~ \sum_{i=0}^∞ \frac{1}{i!} ~ \sum_{i=0}^{\infty}\dfrac{1}{i!}
\lim_{x\to 0} f(x) ~ \lim_{x \to 0}f(x) ~ \lim\limits_{x\to0} f(x) ~ \lim_{x\rightarrow 0} f(x) ~ \lim_{x→0} f(x)
\int_{0}^{1} x dx ~ \int_0^1 x dx ~ \int_0^{1} x\,dx ~ \int^1_0 x \, dx ~ \int_0^1xdx ~ ∫_0^1 x dx
\overline{AB} ~ \overline{ AB } ~ \overline{AB}
\hat{x} ~ \hat x
C_5^2 ~ C_{5}^{2} ~ C^2_5 ~ C^{2}_{5} ~ C₅²
a_{n} ~ a_n ~ {a}_{n} ~ a_{{n}}
x^{2}+1 ~ x^2+1 ~ x²+1 ~ {x}^{2}+1
x^{12} ~ x¹² ~ x^12
(1,2) ~ （1，2） ~ （１，２） ~ ( 1 , 2 ) ~ \left(1,2\right) ~ （1, 2）
12 ~ １２ ~ ＋１２ ~ 12。 ~ 𝟏𝟐
x=3 ~ x＝3 ~ ｘ＝３ ~ 3 ~ x = ３ ~ 𝑥=3
50\% ~ 50％ ~ ５０％ ~ 50
3:2 ~ ３：２ ~ 3：2 ~ 3∶2 ~ 3 : 2
\emptyset ~ \varnothing ~ ∅ ~ \{\} ~ \{ \} ~ \left\{\right\} ~ Ø
\mathbb{R} ~ ℝ ~ \mathbb R ~ \Bbb{R} ~ x \in ℝ
\mathbb{Z} ~ ℤ ~ \mathbb Z
\angle A = 70^\circ ~ ∠A = 70° ~ ∠A＝70° ~ \angle A=70 ~ 70^\circ ~ ∠ A = 70^∘
\angle ABC ~ ∠ABC ~ ∠ ABC ~ \angle{ABC}
[0,1) ~ ［0，1） ~ [0，1) ~ x∈[0，1)
x \le 3 ~ x≤3 ~ x ≦ 3 ~ x⩽3 ~ x <= 3
\frac{1}{3} ~ ⅓ ~ 1⁄3 ~ 1／3 ~ 1∕3
-5 ~ −5 ~ －5 ~ －５ ~ ‑5
5! ~ 5！ ~ 120
1, 2 ~ x_1=1, x_2=2 ~ x_{1} = 1, x_{2} = 2 ~ x₁=1，x₂=2 ~ x_1 = 1 \text{ and } x_2 = 2 ~ x_2 = 2, x_1 = 1 ~ x_1=2,\ x_2=1 ~ x_1=1; x_2=2 ~ x_1 = 1 or x_2 = 2 ~ x=1或x=2 ~ 1和2 ~ 1、2
x_1=1, x_2=2 ~ x_{1}=1, x_{2}=2 ~ x_2=2, x_1=1 ~ 1, 2 ~ x = 1, x = 2 ~ x_1=\frac{2}{2},\, x_2=2 ~ \{1, 2\}
a_1 = 3, a_2 = 6, a_3 = 9 ~ 3, 6, 9 ~ a_{3}=9, a_{1}=3, a_{2}=6
(x_1, x_2) = (1, 2) ~ (1,2) ~ (x_{1},x_{2})=(1,2)
\frac{1\pm\sqrt5}{2} ~ x_{1,2}=\frac{1\pm\sqrt5}{2} ~ x_1=\frac{1+\sqrt5}{2}, x_2=\frac{1-\sqrt5}{2}
\sqrt{2} ~ \sqrt{2} \approx 1.414 ~ \sqrt2\approx1.41 ~ √2 ≈ 1.4 ~ \sqrt{2} (\approx 1.414) ~ x = \sqrt2 \approx 1.4142 ~ \sqrt{2} \text{ (approximately } 1.414) ~ \sqrt2 \approx 1.414\ldots ~ \sqrt{2} ≈ 1.414... ~ \sqrt2\simeq 1.414 ~ \sqrt{2} \text{ (about 1.414)} ~ \sqrt{2} \text{ (approximately 1.41)} ~ \sqrt{2} \text{ or about 1.414} ~ \sqrt2 \approx {1.414} ~ \sqrt{2} \text{ or about } 1.41
\frac{10}{3} ~ \frac{10}{3} \approx 3.33 ~ 3\frac13≈3.333 ~ 10/3 \approx 3.3 ~ \frac{10}{3} \approx 3.34
12\pi ~ 12\pi \approx 37.7 ~ 12π ≈ 37.699 ~ 12\pi\approx 38
1000\pi ~ 1000\pi \approx 3141.6 ~ 1000\pi \approx 3140 ~ 1000\pi \approx 3{,}142 ~ 1000\pi\approx 3.14\times 10^3
12\pi \text{ cm}^2 ~ 12\pi \text{ cm}^2 \approx 37.7 \text{ cm}^2 ~ 12\pi \approx 37.7\text{ cm}^2 ~ 12\pi
\pm\sqrt2 ~ \pm\sqrt2 \approx \pm 1.414 ~ \sqrt2 \approx 1.414, -\sqrt2 \approx -1.414
-\ln 2 ~ -\ln 2 \approx -0.693
\frac{1}{3} ~ \frac13 = 0.333\ldots ~ \frac{1}{3} = 0.33... ~ x = 1/3 = 0.333\dots ~ -\frac{-1}{3} = 0.3…
\sqrt2 \approx 1.414 ~ \sqrt2 ~ \sqrt{2} \approx 1.41 ~ x = \sqrt2
\sin 30^\circ ~ \sin{30}^\circ ~ \sin{30^\circ} ~ \sin{{30}}^{\circ} ~ \frac12
\frac{1}{3} ~ \frac13 \approx 33.3\% ~ \frac{1}{3} ≈ 33％
12 ~ \text{Area} = 12 ~ \text{Area}=12 ~ \mathrm{Area} = 12 ~ Area = 12 ~ \text{area } = 12 ~ \textbf{Area} = 12 ~ \text{Area} = 3\times4 = 12 ~ \text{Total area} = 12 ~ \text{Area}_{ABC} = 12
\text{Area} = 12 ~ 12 ~ \text{Area} = 12\text{ cm}^2 ~ \text{area} = 12.0 ~ \operatorname{Area} = 12
V_{\text{max}} = 5 ~ 5 ~ V_{max}=5 ~ V_{\mathrm{max}} = 5
S_{\triangle ABC} = 6 ~ 6 ~ S_{△ABC}=6
f'(x)=2x ~ f'(x) = 2x ~ 2x ~ f^{\prime}(x) = 2x ~ f^\prime(x)=2x ~ f′(x)=2x ~ f’(x) = 2x ~ f'(x) = x + x ~ f^{'}(x)=2x
f''(x) = 6x ~ 6x ~ f^{\prime\prime}(x)=6x ~ f″(x) = 6x
y' = 2x ~ 2x ~ y^{\prime}=2x ~ y′=2x
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 \\[4pt] 3 & 4 \end{pmatrix} ~ \begin{bmatrix}1&2\\[0.5em]3&4\end{bmatrix} ~ \begin{pmatrix}1&2\\ [-2pt] 3&4\\[4pt]\end{pmatrix} ~ \begin{pmatrix}1&2\\*[4pt]3&4\end{pmatrix}
\begin{pmatrix} \frac12 \\ 3 \end{pmatrix} ~ \begin{pmatrix} \frac{1}{2} \\[6pt] 3 \end{pmatrix} ~ \begin{pmatrix} 0.5 \\[1ex] 3 \end{pmatrix}
5 ~ \underline{5} ~ \color{red}{5} ~ \color{red}5 ~ {\color{red}5} ~ \textcolor{red}{5} ~ \color{red}{\underline{5}} ~ **5** ~ \textcolor[rgb]{1,0,0}{5} ~ \colorbox{yellow}{$5$} ~ \fbox{5} ~ x = **5** ~ \underline{\underline{5}}
\text{yes} ~ \underline{\text{yes}} ~ **yes** ~ \color{red}{\text{yes}} ~ **Yes**
C ~ \underline{C} ~ **C** ~ **(C)** ~ \color{red}{\text{(C)}}
25 ~ (\underline{2+3})^2 ~ \underline{2+3}^2 ~ \color{red}{(2+3)}^2
12345 ~ 12\ 345 ~ 12\,345 ~ 12{,}345 ~ 12,345 ~ 12\;345 ~ 12~345 ~ 12\:345 ~ 12{\,}345 ~ 12{\ }345
1234567.5 ~ 1\ 234\ 567.5 ~ 1\,234\,567.5
1\frac{2}{345} ~ 1\ 2/345 ~ 1 2/345
1, 2 ~ **1**, **2** ~ \underline{1}, \underline{2} ~ **1, 2**
No ~ no ~ NO ~ \text{no} ~ \text{No} ~ \textbf{NO} ~ \mathrm{no} ~ \text{ no }
да ~ Да ~ ДА ~ \text{Да} ~ \textbf{да}
Москва ~ москва ~ \text{Москва}
Élan ~ élan ~ \text{élan} ~ élan ~ ÉLAN
红色 ~ \text{红色} ~ \textbf{红色}
हाँ ~ \text{हाँ}
Ναι ~ \text{Ναι} ~ ναι
F ~ (F) 12 ~ F. 12 ~ F) 12 ~ F: 12 ~ (F) ~ (f) ~ (f) 12 ~ \text{(f) } 12 ~ \textbf{(F)}\ 12 ~ Option F ~ \text{Option F} ~ \text{option (f)} ~ Choice F ~ \text{Option F: } 12 ~ \text{The answer is F} ~ 选项F
G ~ \text{G. } 5.40 \text{ MeV} ~ (G)\ 5 ~ \text{(G) 5 J} ~ (G) 5 \text{ C}
J ~ J) 4.70 ~ (j) ~ \text{(J) both}
B ~ (b) ~ Option B ~ \text{option b} ~ (B) 12 ~ \text{choice (B)} ~ \text{Answer: B} ~ \text{(B) A sum of effects} ~ \text{B: I think so}
(B) 12 ~ (b) ~ Option B ~ \text{Option B}
9.8 ~ 9.8\,\text{N} ~ 9.8 \text{ N} ~ 9.8\ \mathrm{N} ~ 9.8\text{N} ~ 9.8~\mathrm{N} ~ 9.8\text{ J} ~ 9.8 \text{ W} ~ 9.8\text{ V} ~ 9.8\text{ K} ~ 9.8\,\mathrm{A} ~ 9.8 \text{ C} ~ 9.8\,\Omega ~ 9.8 Ω ~ 9.8\text{ Ω} ~ 9.8\,\mathrm{\Omega} ~ 9.8\text{ T}
5 \text{ N} ~ 5 \text{ newtons} ~ 5\text{ Newton} ~ 5\,\mathrm{N} ~ 5 \text{ Н} ~ 5牛
5 \text{ J} ~ 5 \text{ joules} ~ 5\text{ Дж}
5 \text{ kJ} ~ 5 \text{ kilojoules} ~ 5\ \mathrm{kJ}
5\,\Omega ~ 5 \text{ ohms} ~ 5\ \text{Ω} ~ 5 Ω ~ 5\mathrm{\Omega}
5\,\text{k}\Omega ~ 5 \mathrm{k\Omega} ~ 5 kΩ ~ 5 \text{ kiloohms} ~ 5\ \mathrm{k}\Omega
5\,\mu\text{m} ~ 5 \text{ µm} ~ 5\ \mathrm{\mu m} ~ 5 \text{ micrometers}
9.8 \text{ m/s}^2 ~ 9.8\ \mathrm{m/s^2} ~ 9.8 \text{ m/s²} ~ 9.8\,\text{m}\cdot\text{s}^{-2} ~ 9.8
3 \text{ N·m} ~ 3\ \text{N}\cdot\text{m} ~ 3\ \mathrm{N \cdot m} ~ 3\text{ m·N}
37^\circ\text{C} ~ 37 ~ 37^\circ C ~ 37°C ~ 37 ℃ ~ 37\,^\circ\mathrm{C} ~ 37\ \text{°C} ~ 37 \text{ degrees Celsius} ~ 37\text{ celsius} ~ 37^{\circ}\text{C} ~ 37^\circ ~ 37摄氏度
-40^\circ\text{F} ~ -40 ~ -40°F ~ -40 \text{ degrees Fahrenheit}
5 \text{ kg} ~ 5 кг ~ 5 килограмм ~ 5公斤 ~ 5千克 ~ 5 \text{ kilogramos} ~ 5 \text{千克} ~ 5
5 \text{ m} ~ 5米 ~ 5 \text{ metros} ~ 5 м ~ 5 метров ~ 5 \text{ mètres} ~ 5 mètres ~ 5メートル ~ 5\text{ metri}
5 \text{ cm}^2 ~ 5平方厘米 ~ 5 ~ 5\text{ см}^2
5 \text{ hours} ~ 5小时 ~ 5 \text{ Stunden} ~ 5 часов ~ 5 \text{ heures} ~ 5 horas ~ 5時間
5 \text{ years} ~ 5年 ~ 5 años ~ 5 лет ~ 5 Jahre
5 ~ 5个 ~ 5人 ~ 5 яблок ~ 5 élèves ~ 5개
50000 ~ 5万 ~ 5 万 ~ 5万元 ~ 5万人 ~ 50 тысяч
5 \text{ 元} ~ 5元 ~ ¥5 ~ ￥5 ~ 5 \text{ yuan}
€5 ~ 5 ~ 5 € ~ 5€ ~ 5 \text{ euros} ~ 5 \text{ EUR} ~ \text{€}5 ~ \texteuro 5 ~ €5.00
£5 ~ 5 ~ \pounds 5 ~ 5 \text{ pounds} ~ 5£
€10 ~ EUR 10 ~ 10 EUR ~ \texteuro{}10 ~ 10 euros
£10 ~ GBP 10 ~ 10 GBP ~ \pounds{}10
¥100 ~ JPY 100 ~ 100 JPY ~ 100 yen ~ CNY 100
₹100 ~ INR 100 ~ 100 INR
\$5 million ~ USD 5 million ~ 5 million USD
no ~ No ~ "No" ~ “no” ~ \text{"no"} ~ "NO"
\text{Paris} ~ "Paris" ~ “paris”
¥500 ~ 500 ~ 500 \text{ yen} ~ 500円 ~ \yen 500
₹5 ~ 5 ~ 5 \text{ rupees} ~ 5₹
\$5{,}000{,}000 ~ \$5 million ~ \$5 \text{ million} ~ \$5\text{ million dollars} ~ 5 \text{ million dollars} ~ 5 \text{ million}
-€5 ~ -5 ~ €-5 ~ € -5
5 ~ 5, ~ 5; ~ = 5 ~ =5 ~ = 5, ~ = \frac{10}{2} ~ = 5.
(1,2) ~ (1,2), ~ = (1,2)
1, 2 ~ 1, 2, ~ = 1, 2
\frac{1}{3} ~ 0.\dot{3} ~ 0.\dot3 ~ 0.\bar{3} ~ 0.3̇ ~ 0.3\dot{3} ~ 0.\overline{3}
\frac{1}{6} ~ 0.1\dot{6} ~ 0.1\dot6 ~ 0.16̇
\frac{1}{7} ~ 0.\dot{1}4285\dot{7} ~ 0.\overline{142857} ~ 0.\dot14285\dot7
\frac{3}{11} ~ 0.\dot{2}\dot{7} ~ 0.2̇7̇
10 ~ \binom{5}{2} ~ \binom52 ~ \dbinom{5}{2} ~ {5 \choose 2} ~ \frac{1}{1}\binom{5}{3} ~ \tbinom{5}{2}
-4 ~ \binom{-2}{3}
-\frac{1}{8} ~ \binom{1/2}{2} ~ \binom{\frac12}{2}
2\binom{6}{3} ~ 40 ~ 2 \cdot \binom{6}{3} ~ \binom{6}{3}\cdot 2
\binom{2n}{n} ~ \frac{(2n)!}{(n!)^2} ~ \frac{(2n)!}{n!n!}
\binom{n}{k} ~ \frac{n!}{k!(n-k)!} ~ \binom{n}{n-k} ~ \binom nk ~ {n \choose k}
红色, 蓝色 ~ 红色或蓝色 ~ 蓝色和红色 ~ 蓝色，红色
6, 7 ~ 6 \text{ und } 7 ~ 7 \text{ et } 6 ~ 6 или 7
12 \text{ J/(kg·K)} ~ 12 \text{ J/(kg K)} ~ 12 ~ 12\ \mathrm{J/(kg\cdot K)}
5 \text{ km/h} ~ 5 км/ч ~ 5km/h ~ 5 \text{ kilometers per hour}
5 ~ \text{USD } 5 ~ \text{Rs. } 5 ~ 5 kWh ~ 5 MeV
3 ~ \lfloor 3.7 \rfloor ~ ⌊3.7⌋ ~ \left\lfloor 3.7 \right\rfloor ~ \lceil 2.1 \rceil ~ \lfloor \pi \rfloor ~ \lfloor \sqrt{10} \rfloor ~ \lfloor (\sqrt3)^2 \rfloor ~ \lceil (\sqrt3)^2 \rceil ~ ⌈2.5⌉
-4 ~ \lfloor -3.5 \rfloor ~ \lceil -4.5 \rceil ~ -\lfloor 4.5 \rfloor ~ \lfloor -\pi \rfloor
2\lfloor x \rfloor ~ \lfloor x \rfloor + \lfloor x \rfloor ~ 2⌊x⌋ ~ 2 \left\lfloor x \right\rfloor
4 ~ 4th floor ~ 4th ~ 4^{th} ~ 4^\text{th} ~ 4^{\text{th}} ~ 4\text{th} ~ 4 \text{th} ~ 4^{\mathrm{th}}
21st ~ 21 ~ 21^{st} ~ 21^{\text{st}} ~ 21\text{st}
12th ~ 12 ~ 12^{th}
`

// Each line has a solution, and wrong texts. Every text is also tried in all wrappings, and with sides exchanged.
const nearMisses = `
10\text{ s}^{-1} ~ 10\,\mathrm{s^{-2}} ~ 10\,\mathrm{s} ~ 11\,\mathrm{s^{-1}}
5\text{ cm}^3 ~ 5\,\mathrm{cm^{2}} ~ 5\,\mathrm{m^{3}} ~ 6\,\mathrm{cm^{3}}
3\text{ kg·m/s^2} ~ 3\,\mathrm{kg\,m/s} ~ 3\,\mathrm{g\,m/s^2} ~ 3\,\mathrm{kg\,m\,s^{2}}
4\text{ m/s} ~ 4\,\mathrm{m}\,\mathrm{s} ~ 4\,\mathrm{m\cdot s} ~ 4\,\mathrm{km\,s^{-1}}
9.8\text{ m/s^2} ~ 9.8\,\mathrm{m\,s^{-1}} ~ 9.8\,\mathrm{m\,s^{2}} ~ 9\,\mathrm{m\,s^{-2}}
7\text{ N·m} ~ 7\,\mathrm{N} ~ 7\,\mathrm{N/m} ~ 7\,\mathrm{N\,s}
5\text{ m} ~ 5\,\rm s ~ 6\,\rm m ~ 5\,{\rm km}
\$5 ~ A\$5 ~ US\$6 ~ Rs. 5
₹500 ~ Rs. 50 ~ US\$500 ~ Rs. 5000
\$5\text{ million} ~ \$5 ~ \$6M ~ \$50M
5 ~ \approx 6 ~ := 6 ~ \approx -5
\sqrt2 ~ \approx 1.414 ~ := 1.414 ~ \approx 2
\frac13 ~ 0.(2) ~ 0.3 ~ 0.(33)4
7.5 ~ 2.(53) ~ 2.5(4) ~ 7.(5)
Paris ~ 'London' ~ «Rome» ~ „Pari“ ~ 「Pariss」
up ~ pu ~ p u ~ PU
pu ~ up ~ Up ~ UP
2516_8 ~ 2516 ~ 25168 ~ 2516_9 ~ 251_{68} ~ 2516_{80} ~ 2516^8 ~ 2516_{8}1 ~ 1358 ~ 8 ~ 2516 \cdot 8 ~ 2516, 8 ~ 25_{16}8 ~ (2516)_9 ~ (2516)8 ~ 1(2516)_8 ~ (2517)_8
1011_2 ~ 1011 ~ 11 ~ 1011_3 ~ 1011_{12} ~ 10112 ~ 101_{12} ~ 1011^2
3 \pmod{7} ~ 3 ~ 7 ~ 3 \pmod 5 ~ 3 \pmod{77} ~ 4 \pmod 7 ~ 37 ~ 3 (mod 5) ~ 3 \text{ (mod 5)} ~ 3 (mod 77) ~ 3 \text{ (mod } 8) ~ 3 (7) ~ 3 (mod 7) 2 ~ 3 \bmod 7 ~ 3 \cdot 7 ~ \pmod 7 ~ \pmod{7} 3 ~ 3\pmod{7}^2
x \equiv 3 \pmod{7} ~ x \equiv 4 \pmod 7 ~ y \equiv 3 \pmod 7 ~ x \equiv 3 ~ x = 3 ~ 3
\vec{a} ~ a ~ \vec{b} ~ \hat{a} ~ \vec{a}^2 ~ 2\vec{a} ~ -\vec a ~ \overline{a} ~ |\vec a|
\vec{a}+\vec{b} ~ \vec{a}-\vec{b} ~ a+b ~ \vec{a+b}
\sum_{k=1}^{n} k ~ \sum_{k=1}^m k ~ \sum_{k=0}^n k ~ \sum_{k=1}^{n} k^2 ~ \sum_{n=1}^k k ~ \sum_{k=1}^{n+1} k ~ \sum k ~ \prod_{k=1}^n k ~ \sum_{k=1}^{nk} ~ \sum_{k=1}^n j
\lim_{x\to 0} f(x) ~ \lim_{x\to 1} f(x) ~ \lim_{x\to 0} g(x) ~ f(x) ~ f(0) ~ \lim_{y\to 0} f(x)
\int_{0}^{1} x dx ~ \int_0^2 x dx ~ \int_1^0 x dx ~ \int_{01} x dx ~ \int_0^1 y dy ~ \int_0^{1x} dx ~ \int_0^1 x^2 dx
\frac{12}{5} ~ \frac{1}{25} ~ \frac125 ~ 125 ~ \frac{5}{12}
x^{23} ~ x^{2}3 ~ x^23x ~ x^{2^3} ~ 23x ~ x^{32} ~ x_{23}
x^{12} ~ x^{2} ~ x^{1}2 ~ 12x ~ x²
C_5^2 ~ C_2^5 ~ C_{52} ~ C^{52} ~ C_5 ~ C_5^3
a_{12} ~ a_{1}2 ~ a_1 ~ a_{21} ~ 12a
23 ~ 2{3} ~ {2}3 ~ 2_3 ~ 2\underline{3} ~ \color{red}{2}3
(1,2) ~ （2，1） ~ ［1，2］ ~ （1，2］ ~ 1，2 ~ （1，2，3） ~ 12 ~ \{1，2\} ~ x_1=1, x_2=2
12 ~ １３ ~ １ ２ ~ 1.2 ~ １．２ ~ -１２ ~ 21 ~ 1，2
x＝3 ~ y＝3 ~ x＝4 ~ x＝-3 ~ x＞3 ~ x≠3
3:2 ~ ２：３ ~ 3/2 ~ ３２
\emptyset ~ 0 ~ \{0\} ~ \{\emptyset\} ~ \phi ~ \mathbb{R} ~ O ~ \{\{\}\} ~ \text{none}
\mathbb{R} ~ \mathbb{Z} ~ R ~ ℤ ~ ℚ ~ \mathbb{R}^2 ~ \mathbb{R} \setminus \{0\} ~ ℂ ~ r
\angle A = 70^\circ ~ ∠B = 70° ~ ∠A = 71° ~ ∠A = 20° ~ ∠A < 70°
\angle ABC ~ ∠ACB ~ ABC ~ ∠ABD
-5 ~ ５ ~ －6 ~ ± 5
1, 2 ~ x_1=1, x_2=3 ~ x_1=1 ~ x_1=1, x_2=2, x_3=3 ~ x_1=-1, x_2=-2 ~ x_1=1, x_2=1 ~ x_1 = 2 ~ x_1=1, y_2=2 ~ (1,2) ~ x_1=12 ~ x_1=1, x_3=2 ~ x_2=1, x_3=2 ~ x=1, y=2 ~ x_1 < 1, x_2 < 2
x_1=1, x_2=2 ~ x_1=2, x_2=1 ~ 2, 1 ~ x_1=1, x_3=2 ~ y_1=1, y_2=2 ~ x_1=1 ~ x_2=2 ~ x_1 = 1, x_2 = -2 ~ (1,2) ~ [1,2] ~ x_{12}=12 ~ x_1=1, x_2 \ne 2 ~ 3 ~ x_1+x_2=3
x_1=1, x_2=2, x_3=3 ~ 1, 3, 2 ~ 1, 2 ~ x_1=1, x_2=3, x_3=2 ~ 3, 2, 1
(x_1, x_2) = (1, 2) ~ (x_1, x_2) = (2, 1) ~ (x_2, x_1) = (1, 2) ~ (2,1) ~ 1, 2
x=1, y=2 ~ x=2, y=1 ~ 1, 2 ~ (1,2) ~ x=1 ~ x_1=1, x_2=2
\sqrt{2} ~ \sqrt{3} \approx 1.414 ~ 1.414 ~ 1.41 ~ \approx 1.414 ~ x \approx 1.414 ~ \sqrt3 \approx 1.732 ~ 2 \approx 1.414 ~ 1.414 \approx \sqrt2 ~ \frac{7}{5} \approx 1.4 ~ 1.4142 \approx 1.414 ~ \sqrt2 \approx 1.732 ~ \sqrt{3} \text{ (about 1.414)} ~ \sqrt2 \text{ (about 1.732)} ~ \text{about 1.414} ~ -\sqrt2 \approx -1.414 ~ \sqrt2 \approx -1.414 ~ 2\sqrt2 \approx 2.83 ~ \sqrt{2} x \approx 1.414 ~ \frac{17}{12} (\approx 1.417) ~ \sqrt2, 1.414
\frac{10}{3} ~ 3.33 ~ 3.3333 ~ \frac{10}{4} \approx 3.33 ~ 3.33 \approx \frac{10}{3} ~ \frac{3}{10} \approx 0.3 ~ \frac{10}{3} \approx 3.5 ~ 3 \approx \frac{10}{3} ~ 3.33 \approx 3.333
12\pi ~ 37.7 ~ 12 \approx 37.7 ~ 12 ~ 12.001\pi \approx 37.7 ~ 38 ~ 12\pi \approx 3.77 ~ 12\pi \approx 36
12\pi \text{ cm} ~ 12\pi \text{ m} \approx 37.7 \text{ m} ~ 12\pi \approx 37.7 \text{ m} ~ 12\pi \text{ cm} \approx 37.7 \text{ m} ~ 12\pi \text{ cm}^2 \approx 37.7
\frac{1}{3} ~ 0.333 ~ 0.333... ~ 0.333\ldots ~ \frac13 = 0.333 ~ \frac14 = 0.333\ldots ~ \frac13 = 0.25\ldots ~ x = 0.333\ldots
\sqrt2 \approx 1.414 ~ 1.414 ~ \sqrt3 ~ 1.414...
\sin 30^\circ ~ \sin{30} ~ \sin{60}^\circ ~ \sin{30}^2 ~ \cos{30}^\circ
1, 2, \ldots ~ 1, 2 ~ 1, 2, 3 ~ 1, 3, \ldots
\frac{1}{3} ~ \frac13 \approx 3.33\% ~ 33.3\% ~ \frac14 \approx 25\% ~ \frac13\% \approx 33\%
33\% ~ \frac13 \approx 33\% ~ 0.33
37.7 ~ 12\pi \approx 37.7 ~ 37.6 ~ 37.70001
\text{Area} = 12 ~ \text{Area} = 13 ~ \text{Perimeter} = 12 ~ \text{Area} = -12 ~ \text{Area} < 12 ~ 13 ~ \text{Area} ~ \text{Area} = 12x ~ \text{Area} \ne 12 ~ \text{Area} = 12, 13 ~ \text{Area} = 1 2
12 ~ \text{Area} = 13 ~ \text{none if } k = 12 ~ \text{no solution when } x = 12 ~ \text{Area} > 12 ~ 2\text{Area} = 12 ~ \text{not } x = 12 ~ \text{Area} + 1 = 12 ~ \text{Area}^2 = 12 ~ \text{Area - 2} = 12 ~ \text{1/Area} = 12 ~ \text{Area} 2 = 12 ~ \text{-Area} = 12 ~ \text{Area} - x = 12 ~ -\text{Area} = 12
\text{Area} = 12 \text{ cm}^2 ~ \text{Area} = 12 \text{ cm} ~ \text{Area} = 12\text{ m}^2 ~ \text{Area} = 1.2\text{ cm}^2
\text{Length} = 5, \text{Width} = 3 ~ \text{Length} = 3, \text{Width} = 5 ~ 5, 3 ~ \text{Length} = 5
V_{\text{max}} = 5 ~ V_{\text{min}} = 5 ~ V_{\text{max}} = 6 ~ V = 5
f'(x)=2x ~ f(x)=2x ~ g'(x)=2x ~ f'(x)=x^2 ~ f''(x)=2x ~ f'(x)=2 ~ f'(x)=-2x ~ x^2 ~ f'(y)=2x ~ f'(2)=2x
2x ~ f'(x) = 2 ~ f'(x) = x^2 ~ f'(2) = 4 ~ y' = 3x ~ y'' = 2 ~ 2x' ~ x'
y' = 2x ~ y = 2x ~ y'' = 2x ~ z' = 2x
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 \\[4pt] 4 & 3 \end{pmatrix} ~ \begin{pmatrix} 1 & 3 \\[4pt] 2 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix} ~ \begin{vmatrix} 1 & 2 \\[4pt] 3 & 4 \end{vmatrix} ~ \begin{pmatrix} 1 & 2 \\ 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 \\[4pt] -3 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 \\[4pt] 2 \\[4pt] 3 \\[4pt] 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 2 \\ [4] 3 & 4 \end{pmatrix}
5 ~ \underline{6} ~ \overline{5} ~ \color{red}{6} ~ \color{5}{6} ~ \cancel{5} ~ **6** ~ **5 ~ 5** ~ \underline{5}0 ~ \underline{-5} ~ **5**6 ~ \phantom{5} ~ \hspace{5} ~ \color{red}{5}{6} ~ \underline{5}, 6 ~ \textcolor{5}{0} ~ \sout{5} ~ 6**5**
2^{10} ~ 2**11 ~ 2*10 ~ **2** 10 ~ 210
\text{yes} ~ **no** ~ \underline{\text{no}} ~ \color{yes}{no}
C ~ \underline{D} ~ **B** ~ \color{C}{D} ~ **(D)**
12345 ~ 12\ 346 ~ 12\ 34 ~ (12,345) ~ 12, 345 ~ 12\ 3456 ~ 1\ 2345 ~ 12\ 345\ 000 ~ 12 345 ~ 12.345 ~ -12\ 345 ~ 12\ 345.1 ~ 012\ 346 ~ \{12,345\} ~ 123\ 45
\frac{x}{2} ~ \frac{}{2}x ~ \frac{}{}x2
\frac{579}{456} ~ 1{\,}123/456 ~ 1123/456 ~ \frac{1123}{456} ~ 1\ 123
5 \text{ cm} ~ \underline{5 \text{ m}} ~ **5 m** ~ 5％ ~ ５ m
(0,1) ~ ［0，1］ ~ [0,1) ~ (0,1] ~ （0，1］ ~ (1,0) ~ 0, 1 ~ 0 < x \le 1
[0,1] ~ （0，1） ~ [0,1) ~ [1,0] ~ [0,1]\cup[2,3]
(-∞，3] ~ (-∞，3) ~ (3，∞) ~ (∞，3] ~ (-∞，-3]
x² ~ x³ ~ x_2 ~ 2x ~ x²²
x₁ ~ x₂ ~ x¹ ~ x_{11}
⅓ ~ ⅔ ~ 0.33 ~ 3 ~ 0.333333
x≥3 ~ x＞3 ~ x≤3 ~ 3≥x ~ x≥-3
no ~ on ~ On ~ ON ~ "on" ~ up ~ on "no"
€10 ~ GBP 10 ~ 10 USD ~ EUR 11 ~ JPY 10
¥100 ~ INR 100 ~ EUR 100 ~ 1000 JPY
No ~ on ~ \text{on} ~ Yes ~ \text{yes} ~ \text{not} ~ n + o ~ No, no
Gm ~ gm ~ \text{gm} ~ GM
\text{CO} ~ \text{Co} ~ co
да ~ ад ~ нет ~ \text{нет}
红色 ~ 色红 ~ 红 ~ 蓝色 ~ \text{色红}
上海 ~ 海上 ~ 北京
Москва ~ Киев ~ авкМос ~ Моск
F ~ 5 F ~ 5\text{ F} ~ 5F ~ G ~ (F)(G) ~ (F) and (G) ~ (F) + 1 ~ 12 ~ (G) 12 ~ \text{Option G} ~ Option 6 ~ (f)x ~ (g) ~ \text{Options F and G}
(F) 12 ~ (G) 12 ~ (F) 13 ~ G ~ 13
B ~ Option C ~ \text{option c} ~ (c) ~ (b)(c) ~ \text{Options B and C} ~ \text{(B) or (C)} ~ K ~ \text{B or C} ~ (B) C
(b) ~ (c) ~ b + 1 ~ (b)^2
9.8\,\text{N} ~ 9.7 ~ 9.8 \text{ J} ~ 98 \text{ N} ~ 9.8 \text{ kN} ~ 9.8\text{ newton-metres}
5\text{ J} ~ 5 \text{ kJ} ~ 5 \text{ W} ~ 5 \text{ C}
5\text{ mW} ~ 5\text{ MW} ~ 5\text{ W} ~ 5\text{ kW}
5\,\Omega ~ 5\,\text{k}\Omega ~ 5\text{ V} ~ 6\,\Omega ~ \Omega ~ 5\Omega + 1
6 ~ 1 + 5\Omega ~ 5 + \Omega ~ 6\Omega^2
3 ~ 3A ~ 3N ~ 3V ~ 3 \text{ N} + 1
37^\circ\text{C} ~ 37^\circ\text{F} ~ 38^\circ\text{C} ~ 37\text{ K} ~ 37°F ~ -37^\circ\text{C}
3 \text{ N·m} ~ 3 \text{ N/m} ~ 3 \text{ N} ~ 3\text{ m}
9.8 \text{ m/s}^2 ~ 9.8 \text{ m/s} ~ 9.8 \text{ km/s}^2 ~ 9.8 \text{ m·s}^2
5米 ~ 5厘米 ~ 6米 ~ 5千米 ~ 5 \text{ km} ~ 5平方米 ~ 5 см
5 кг ~ 5 г ~ 5 км ~ 6 кг
5 ~ 5万 ~ 5以上 ~ 5倍数 ~ 5 más ~ 5 тысяч ~ 第5
5万 ~ 5千 ~ 5亿 ~ 50万
€5 ~ \$5 ~ £5 ~ €6 ~ 5 \text{ cents} ~ €50 ~ 5\%
£5 ~ €5 ~ \$5 ~ ¥5 ~ 5 \text{ kg}
¥5 ~ ₹5 ~ \$5 ~ €5
₹5 ~ €5 ~ £5 ~ ₹50
\$5 million ~ \$5 ~ \$5 \text{ thousand} ~ \$5 \text{ billion} ~ €5 million
5 ~ 5,6 ~ = -5 ~ = 6 ~ 5,, 6 ~ \ne 5 ~ = 5x ~ < 5
\frac{1}{3} ~ 0.\dot{4} ~ 0.3 ~ 0.\dot{3}5 ~ \dot{3} ~ 0.\dot{0}3 ~ 0.\dot{3}\dot{0}
\frac{1}{6} ~ 0.\dot{1}\dot{6} ~ 0.16 ~ 0.\dot{1}6
10 ~ \binom{5}{1} ~ \binom{2}{5} ~ \binom{25}{} ~ \frac{5}{2} ~ \binom{5}{2}^2
3 ~ \lfloor 4.1 \rfloor ~ \lceil 3.1 \rceil ~ \lfloor 2.999 \rfloor ~ \lfloor 3.7 ~ \lfloor 3.7 \rceil
\binom{n}{k} ~ \binom{k}{n} ~ \frac{n!}{k!} ~ \binom{n}{k+1}
红色, 蓝色 ~ 红色 ~ 红色, 红色 ~ 红蓝色
3.7 ~ \lfloor 3.7 \rfloor ~ \lceil 3.7 \rceil ~ |3.7| + 1
-3 ~ \lfloor -3.5 \rfloor ~ \lceil -2.5 \rceil ~ \lceil 3.5 \rceil
x ~ \lfloor x \rfloor ~ \lceil x \rceil ~ \lfloor x \rfloor + 1
4th ~ 5th ~ 1/4 ~ 4t ~ 4h ~ 14th ~ 40 ~ 4^t ~ 4 \text{ kg}
4 ~ 4nd ~ 4^{h} ~ 4thx ~ 4^{thn} ~ 1/4th
`

// wrappings are ways in which models write an answer. None changes its meaning.
var wrappings = []func(string) string{
	func(s string) string { return s },
	func(s string) string { return "\n" + s + "\n" },
	func(s string) string { return " " + s + " " },
	func(s string) string { return "$" + s + "$" },
	func(s string) string { return `\(` + s + `\)` },
	func(s string) string { return `\[ ` + s + ` \]` },
	func(s string) string { return s + "." },
	func(s string) string { return s + `\,` },
	func(s string) string { return `\displaystyle ` + s },
	func(s string) string { return `\;` + s + `\;` },
	func(s string) string { return "{" + s + "}" },
	func(s string) string { return "{{" + s + "}}" },
	func(s string) string { return `\underline{` + s + "}" },
	func(s string) string { return `\color{blue}{` + s + "}" },
	func(s string) string { return `\textcolor{red}{` + s + "}" },
	func(s string) string { return `\large ` + s },
	func(s string) string { return `{\bf ` + s + "}" },
	func(s string) string { return `\boxed{` + s + "}" },
	func(s string) string { return strings.ReplaceAll(s, ",", "，") },
	func(s string) string { return strings.ReplaceAll(s, "=", "＝") },
	func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "(", "（"), ")", "）") },
	func(s string) string {
		return strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return r - '0' + '０'
			}
			return r
		}, s)
	},
}

// TestForms: right answers are accepted in every wrapping, and near misses in none.
func TestForms(t *testing.T) {
	if len(wrappings) < 20 {
		t.Fatalf("%d wrappings", len(wrappings))
	}
	each := func(table string, do func(solution, text string)) (n int) {
		for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
			texts := strings.Split(line, " ~ ")
			for _, text := range texts[1:] {
				do(texts[0], text)
				n++
			}
		}
		return n
	}
	grade := func(answer, solution string) Outcome {
		return Grade(`So \boxed{`+answer+`}`, []string{solution}).Outcome
	}
	wrappingsOf := func(text string) []func(string) string {
		if strings.Contains(text, "**") { // Markdown stands in no formula
			return wrappings[:3]
		}
		return wrappings
	}
	right := each(rightForms, func(solution, text string) {
		for i, wrapping := range wrappingsOf(text) {
			if got := grade(wrapping(text), solution); got != Right {
				t.Errorf("solution %s, answer %s in wrapping %d: %v", solution, wrapping(text), i, got)
				break
			}
		}
	})
	wrong := each(nearMisses, func(solution, text string) {
		for i, wrapping := range wrappingsOf(text) {
			if grade(wrapping(text), solution) == Right {
				t.Errorf("solution %s, wrong answer %s in wrapping %d: right", solution, wrapping(text), i)
				break
			}
		}
		if solution == "x_1=1, x_2=2" && text == "2, 1" || strings.HasPrefix(solution, "x_1=1, x_2=2, x_3=3") {
			return // the other way round, 2, 1 are a set, and any order of names is right
		}
		if grade(solution, text) == Right {
			t.Errorf("solution %s, wrong answer %s: right", text, solution)
		}
	})
	if wrong < 300 {
		t.Errorf("%d near misses", wrong)
	}
	t.Logf("%d right texts and %d near misses in %d wrappings", right, wrong, len(wrappings))
}
