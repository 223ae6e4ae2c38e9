// One training step of the default model on the CPU: loss and gradients, without the optimizer; and the most likely next tokens, for
// evaluate.py. train.py builds this with g++ and calls it through ctypes; `train.py --check` compares it with the same step written in torch.
//
// Rows of a batch are independent, so each thread takes whole rows, with its own activations and its own sums of gradients: the
// threads never wait for each other inside a row, which matters on a machine that has other work to do. Attention visits only
// what is visible and keeps no [time, time] matrix: the backward pass computes the scores again.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c,
                 int ldc);
void openblas_set_num_threads(int);
}

namespace {

constexpr int kDim = 256, kLayers = 6, kHeads = 4, kKv = 2, kWidth = 64, kFf = 704, kVocab = 1024;
constexpr int kQ = kHeads * kWidth, kK = kKv * kWidth, kQueryBlock = 128;
constexpr float kEps = 1e-5f;

// Row-major c[m, n] = alpha * a * b + beta * c, where a or b may be stored transposed.
void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
    cblas_sgemm(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

struct LayerParams {
    float *n1, *n2, *q, *k, *v, *o, *gate, *up, *down;
};

// The order in which train.py passes its tensors.
struct Params {
    float *emb, *norm;
    LayerParams layer[kLayers];
    explicit Params(float* const* p) : emb(p[0]), norm(p[1]) {
        for (int i = 0; i < kLayers; ++i) {
            float* const* at = p + 2 + 9 * i;
            layer[i] = {at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], at[8]};
        }
    }
};

constexpr int kTensors = 2 + 9 * kLayers;
constexpr size_t tensor_size(int i) {
    constexpr size_t layer[9] = {kDim, kDim, kQ * kDim, kK * kDim, kK * kDim, kDim * kQ, kFf * kDim, kFf * kDim, kDim * kFf};
    return i == 0 ? size_t{kVocab} * kDim : i == 1 ? kDim : layer[(i - 2) % 9];
}

// Linear layers: weights are [out, in].
void linear(int t, int in, int out, const float* x, const float* w, float* y, float beta = 0) { gemm(false, true, t, out, in, 1, x, in, w, in, beta, y, out); }
void linear_backward(int t, int in, int out, const float* x, const float* w, const float* dy, float* dx, float beta, float* dw) {
    gemm(false, false, t, in, out, 1, dy, out, w, in, beta, dx, in);
    gemm(true, false, out, in, t, 1, dy, out, x, in, 1, dw, in);
}

void norm(int t, const float* x, const float* w, float* r, float* y) {
    for (int i = 0; i < t; ++i, x += kDim, y += kDim) {
        float sum = 0;
        for (int j = 0; j < kDim; ++j) sum += x[j] * x[j];
        r[i] = 1 / std::sqrt(sum / kDim + kEps);
        for (int j = 0; j < kDim; ++j) y[j] = x[j] * r[i] * w[j];
    }
}

// Adds to dx and dw.
void norm_backward(int t, const float* x, const float* w, const float* r, const float* dy, float* dx, float* dw) {
    for (int i = 0; i < t; ++i, x += kDim, dy += kDim, dx += kDim) {
        float dot = 0;
        for (int j = 0; j < kDim; ++j) dot += dy[j] * w[j] * x[j];
        const float s = r[i], c = dot * s * s * s / kDim;
        for (int j = 0; j < kDim; ++j) {
            dx[j] += dy[j] * w[j] * s - x[j] * c;
            dw[j] += dy[j] * x[j] * s;
        }
    }
}

// Pairs are (2i, 2i + 1); sign -1 turns back. cos and sin are [time, width / 2].
void rope(int t, int heads, float* x, const float* cos, const float* sin, float sign) {
    for (int i = 0; i < t; ++i, cos += kWidth / 2, sin += kWidth / 2)
        for (int h = 0; h < heads; ++h, x += kWidth)
            for (int j = 0; j < kWidth / 2; ++j) {
                const float a = x[2 * j], b = x[2 * j + 1], s = sign * sin[j];
                x[2 * j] = a * cos[j] - b * s;
                x[2 * j + 1] = a * s + b * cos[j];
            }
}

struct Layer {
    std::vector<float> x, r1, n1, q, k, v, o, lse, mid, r2, n2, g, u, h;
    void resize(int t) {
        const size_t n = t;
        for (auto* p : {&x, &n1, &mid, &n2}) p->resize(n * kDim);
        q.resize(n * kQ), o.resize(n * kQ), k.resize(n * kK), v.resize(n * kK), lse.resize(n * kHeads), r1.resize(n), r2.resize(n);
        for (auto* p : {&g, &u, &h}) p->resize(n * kFf);
    }
};

class Worker {
public:
    Worker() : sums_(total()) {
        size_t at = 0;
        for (int i = 0; i < kTensors; ++i) pointers_[i] = sums_.data() + at, at += tensor_size(i);
    }
    static size_t total() {
        size_t n = 0;
        for (int i = 0; i < kTensors; ++i) n += tensor_size(i);
        return n;
    }
    void begin() { std::fill(sums_.begin(), sums_.end(), 0.f), loss = right = counted = 0; }
    const float* grad(int i) const { return pointers_[i]; }

    double loss = 0, right = 0, counted = 0;

    // One row of t tokens; scale is 1 / (sum of all weights of the batch).
    void row(const Params& p, int t, const int* ids, const int* targets, const float* weights, float scale) {
        resize(t);
        for (int i = 0; i < t; ++i) std::memcpy(&x_[size_t(i) * kDim], p.emb + size_t(ids[i]) * kDim, kDim * sizeof(float));
        for (int i = 0; i < kLayers; ++i) forward(p.layer[i], layers_[i], t);
        const Params d(pointers_);
        std::fill_n(dx_.begin(), size_t(t) * kDim, 0.f);
        head(p, d, t, targets, weights, scale);
        for (int i = kLayers; i-- > 0;) backward(p.layer[i], d.layer[i], layers_[i], t);
        for (int i = 0; i < t; ++i) {
            float* to = d.emb + size_t(ids[i]) * kDim;
            for (int j = 0; j < kDim; ++j) to[j] += dx_[size_t(i) * kDim + j];
        }
    }

    // out[i] = the most likely token after ids[i] for i >= from; the others stay as they are.
    void predict(const Params& p, int t, const int* ids, int from, int* out) {
        resize(t);
        for (int i = 0; i < t; ++i) std::memcpy(&x_[size_t(i) * kDim], p.emb + size_t(ids[i]) * kDim, kDim * sizeof(float));
        for (int i = 0; i < kLayers; ++i) forward(p.layer[i], layers_[i], t);
        const int n = t - from;
        hn_.resize(size_t(n) * kDim), logits_.resize(size_t(n) * kVocab);
        norm(n, &x_[size_t(from) * kDim], p.norm, r_.data(), hn_.data());
        linear(n, kDim, kVocab, hn_.data(), p.emb, logits_.data());
        for (int i = 0; i < n; ++i) {
            const float* y = &logits_[size_t(i) * kVocab];
            out[from + i] = int(std::max_element(y, y + kVocab) - y);
        }
    }

private:
    void resize(int t) {
        if (t == size_) return;
        size_ = t;
        const size_t n = t;
        for (auto* v : {&x_, &dx_, &d1_, &dq_, &do_}) v->resize(n * kDim);
        dk_.resize(n * kK), dv_.resize(n * kK), dh_.resize(n * kFf), dg_.resize(n * kFf), r_.resize(n);
        s_.resize(n * kQueryBlock), ds_.resize(n * kQueryBlock), cos_.resize(n * kWidth / 2), sin_.resize(n * kWidth / 2);
        for (int i = 0; i < t; ++i)
            for (int j = 0; j < kWidth / 2; ++j) {
                const double angle = i * std::pow(10000.0, -2.0 * j / kWidth);
                cos_[size_t(i) * kWidth / 2 + j] = float(std::cos(angle)), sin_[size_t(i) * kWidth / 2 + j] = float(std::sin(angle));
            }
        for (Layer& l : layers_) l.resize(t);
    }

    void forward(const LayerParams& p, Layer& l, int t) {
        std::copy_n(x_.begin(), size_t(t) * kDim, l.x.begin());
        norm(t, l.x.data(), p.n1, l.r1.data(), l.n1.data());
        linear(t, kDim, kQ, l.n1.data(), p.q, l.q.data());
        linear(t, kDim, kK, l.n1.data(), p.k, l.k.data());
        linear(t, kDim, kK, l.n1.data(), p.v, l.v.data());
        rope(t, kHeads, l.q.data(), cos_.data(), sin_.data(), 1);
        rope(t, kKv, l.k.data(), cos_.data(), sin_.data(), 1);
        for (int h = 0; h < kHeads; ++h) attend(l, t, h);
        linear(t, kQ, kDim, l.o.data(), p.o, x_.data(), 1);
        std::copy_n(x_.begin(), size_t(t) * kDim, l.mid.begin());
        norm(t, l.mid.data(), p.n2, l.r2.data(), l.n2.data());
        linear(t, kDim, kFf, l.n2.data(), p.gate, l.g.data());
        linear(t, kDim, kFf, l.n2.data(), p.up, l.u.data());
        for (size_t i = 0; i < size_t(t) * kFf; ++i) l.h[i] = l.g[i] / (1 + std::exp(-l.g[i])) * l.u[i];
        linear(t, kFf, kDim, l.h.data(), p.down, x_.data(), 1);
    }

    // s_[rows, end] = scaled scores of the queries [begin, end) over the keys [0, end).
    void scores(const Layer& l, int begin, int end, int h) {
        const float* k = l.k.data() + h / (kHeads / kKv) * kWidth;
        gemm(false, true, end - begin, end, kWidth, 1 / std::sqrt(float(kWidth)), &l.q[size_t(begin) * kQ + h * kWidth], kQ, k, kK, 0, s_.data(), end);
    }

    void attend(Layer& l, int t, int h) {
        const float* v = l.v.data() + h / (kHeads / kKv) * kWidth;
        for (int begin = 0; begin < t; begin += kQueryBlock) {
            const int end = std::min(t, begin + kQueryBlock);
            scores(l, begin, end, h);
            for (int i = begin; i < end; ++i) {
                float* s = &s_[size_t(i - begin) * end];
                float top = s[0], sum = 0;
                for (int j = 1; j <= i; ++j) top = std::max(top, s[j]);
                for (int j = 0; j <= i; ++j) sum += s[j] = std::exp(s[j] - top);
                const float inverse = 1 / sum;
                for (int j = 0; j <= i; ++j) s[j] *= inverse;
                std::fill(s + i + 1, s + end, 0.f);
                l.lse[size_t(i) * kHeads + h] = top + std::log(sum);
            }
            gemm(false, false, end - begin, kWidth, end, 1, s_.data(), end, v, kK, 0, &l.o[size_t(begin) * kQ + h * kWidth], kQ);
        }
    }

    // From do_ (gradient of l.o) to dq_, dk_, dv_; the latter two are added to.
    void attend_backward(const Layer& l, int t, int h) {
        const int kv = h / (kHeads / kKv) * kWidth;
        for (int begin = 0; begin < t; begin += kQueryBlock) {
            const int end = std::min(t, begin + kQueryBlock), rows = end - begin;
            const size_t at = size_t(begin) * kQ + h * kWidth;
            scores(l, begin, end, h);
            gemm(false, true, rows, end, kWidth, 1, &do_[at], kQ, l.v.data() + kv, kK, 0, ds_.data(), end);
            for (int i = begin; i < end; ++i) {
                float *s = &s_[size_t(i - begin) * end], *ds = &ds_[size_t(i - begin) * end];
                const float *o = &l.o[size_t(i) * kQ + h * kWidth], *d = &do_[size_t(i) * kQ + h * kWidth];
                const float lse = l.lse[size_t(i) * kHeads + h];
                float delta = 0;
                for (int j = 0; j < kWidth; ++j) delta += o[j] * d[j];
                for (int j = 0; j <= i; ++j) {
                    s[j] = std::exp(s[j] - lse);
                    ds[j] = s[j] * (ds[j] - delta);
                }
                std::fill(s + i + 1, s + end, 0.f), std::fill(ds + i + 1, ds + end, 0.f);
            }
            const float scale = 1 / std::sqrt(float(kWidth));
            gemm(true, false, end, kWidth, rows, 1, s_.data(), end, &do_[at], kQ, 1, dv_.data() + kv, kK);
            gemm(true, false, end, kWidth, rows, scale, ds_.data(), end, &l.q[at], kQ, 1, dk_.data() + kv, kK);
            gemm(false, false, rows, kWidth, end, scale, ds_.data(), end, l.k.data() + kv, kK, 0, &dq_[at], kQ);
        }
    }

    // Turns dx_, the gradient of the layer's output, into that of its input.
    void backward(const LayerParams& p, const LayerParams& d, Layer& l, int t) {
        linear_backward(t, kFf, kDim, l.h.data(), p.down, dx_.data(), dh_.data(), 0, d.down);
        for (size_t i = 0; i < size_t(t) * kFf; ++i) {
            const float s = 1 / (1 + std::exp(-l.g[i])), silu = l.g[i] * s;
            dg_[i] = dh_[i] * l.u[i] * (s + silu * (1 - s));
            dh_[i] *= silu;
        }
        linear_backward(t, kDim, kFf, l.n2.data(), p.gate, dg_.data(), d1_.data(), 0, d.gate);
        linear_backward(t, kDim, kFf, l.n2.data(), p.up, dh_.data(), d1_.data(), 1, d.up);
        norm_backward(t, l.mid.data(), p.n2, l.r2.data(), d1_.data(), dx_.data(), d.n2);
        linear_backward(t, kQ, kDim, l.o.data(), p.o, dx_.data(), do_.data(), 0, d.o);
        std::fill(dk_.begin(), dk_.end(), 0.f), std::fill(dv_.begin(), dv_.end(), 0.f);
        for (int h = 0; h < kHeads; ++h) attend_backward(l, t, h);
        rope(t, kHeads, dq_.data(), cos_.data(), sin_.data(), -1);
        rope(t, kKv, dk_.data(), cos_.data(), sin_.data(), -1);
        linear_backward(t, kDim, kQ, l.n1.data(), p.q, dq_.data(), d1_.data(), 0, d.q);
        linear_backward(t, kDim, kK, l.n1.data(), p.k, dk_.data(), d1_.data(), 1, d.k);
        linear_backward(t, kDim, kK, l.n1.data(), p.v, dv_.data(), d1_.data(), 1, d.v);
        norm_backward(t, l.x.data(), p.n1, l.r1.data(), d1_.data(), dx_.data(), d.n1);
    }

    // Loss at the positions that count, and the gradient there into dx_.
    void head(const Params& p, const Params& d, int t, const int* targets, const float* weights, float scale) {
        std::vector<int> at;
        for (int i = 0; i < t; ++i)
            if (weights[i] > 0) at.push_back(i);
        const int n = int(at.size());
        hx_.resize(size_t(n) * kDim), hn_.resize(size_t(n) * kDim), hd_.resize(size_t(n) * kDim), logits_.resize(size_t(n) * kVocab);
        for (int i = 0; i < n; ++i) std::copy_n(&x_[size_t(at[i]) * kDim], kDim, &hx_[size_t(i) * kDim]);
        norm(n, hx_.data(), p.norm, r_.data(), hn_.data());
        linear(n, kDim, kVocab, hn_.data(), p.emb, logits_.data());
        for (int i = 0; i < n; ++i) {
            float* y = &logits_[size_t(i) * kVocab];
            const int target = targets[at[i]];
            const float w = weights[at[i]], mine = y[target];
            float top = y[0], sum = 0;
            for (int j = 1; j < kVocab; ++j) top = std::max(top, y[j]);
            if (w > 1) counted += 1, right += mine == top;
            for (int j = 0; j < kVocab; ++j) sum += y[j] = std::exp(y[j] - top);
            loss += double(w) * scale * (std::log(sum) + top - mine);
            const float factor = w * scale / sum;
            for (int j = 0; j < kVocab; ++j) y[j] *= factor;
            y[target] -= w * scale;
        }
        linear_backward(n, kDim, kVocab, hn_.data(), p.emb, logits_.data(), hd_.data(), 0, d.emb);
        std::fill(hn_.begin(), hn_.end(), 0.f);
        norm_backward(n, hx_.data(), p.norm, r_.data(), hd_.data(), hn_.data(), d.norm);
        for (int i = 0; i < n; ++i) std::copy_n(&hn_[size_t(i) * kDim], kDim, &dx_[size_t(at[i]) * kDim]);
    }

    int size_ = 0;
    std::vector<float> sums_, x_, dx_, d1_, dq_, dk_, dv_, do_, dh_, dg_, r_, s_, ds_, cos_, sin_, hx_, hn_, hd_, logits_;
    float* pointers_[kTensors];
    Layer layers_[kLayers];
};

}  // namespace

// params and grads: kTensors pointers each. ids, targets and weights: [rows, t]. out: loss, share of right answers. grads are overwritten.
extern "C" void train_step(float* const* params, float* const* grads, int rows, int t, const int* ids, const int* targets, const float* weights, int threads,
                           float* out) {
    openblas_set_num_threads(1);
    static std::vector<Worker> workers;
    if (int(workers.size()) < threads) workers = std::vector<Worker>(threads);
    double sum = 0;
    for (size_t i = 0; i < size_t(rows) * t; ++i) sum += weights[i];
    const Params p(params);
    std::atomic<int> next{0};
    auto work = [&](Worker& w) {
        w.begin();
        for (int i; (i = next++) < rows;) w.row(p, t, ids + size_t(i) * t, targets + size_t(i) * t, weights + size_t(i) * t, float(1 / sum));
    };
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i) team.emplace_back(work, std::ref(workers[i]));
    work(workers[0]);
    for (std::thread& th : team) th.join();
    double loss = 0, right = 0, counted = 0;
    for (int i = 0; i < threads; ++i) loss += workers[i].loss, right += workers[i].right, counted += workers[i].counted;
    for (int i = 0; i < kTensors; ++i)
        for (size_t j = 0; j < tensor_size(i); ++j) {
            float g = 0;
            for (int k = 0; k < threads; ++k) g += workers[k].grad(i)[j];
            grads[i][j] = g;
        }
    out[0] = float(loss), out[1] = counted > 0 ? float(right / counted) : 0;
}

// ids and out: [rows, t]; from: [rows], the first position whose next token is wanted.
extern "C" void predict(float* const* params, int rows, int t, const int* ids, const int* from, int threads, int* out) {
    openblas_set_num_threads(1);
    const Params p(params);
    std::atomic<int> next{0};
    auto work = [&] {
        Worker w;
        for (int i; (i = next++) < rows;) w.predict(p, t, ids + size_t(i) * t, from[i], out + size_t(i) * t);
    };
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i) team.emplace_back(work);
    work();
    for (std::thread& th : team) th.join();
}
