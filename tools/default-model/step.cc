// One training step of the default model on the CPU: loss, gradients, AdamW; and the most likely next tokens, for evaluate.py. train.py builds this
// with g++ and calls it through ctypes; `train.py --check` compares it with the same step written in torch.
//
// Rows of a batch are independent, so each thread takes whole rows, with its own activations and its own sums of gradients: the
// threads never wait for each other inside a row, which matters on a machine that has other work to do. Attention visits only
// what is visible and keeps no [time, time] matrix: the backward pass computes the scores again.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "product.h"

namespace {

constexpr int kDim = 256, kLayers = 6, kHeads = 4, kKv = 2, kWidth = 64, kFf = 704, kVocab = 1024;
constexpr int kQ = kHeads * kWidth, kK = kKv * kWidth, kQueryBlock = 96;
constexpr float kEps = 1e-5f;

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

// A weight [out, in] as the right-hand matrix of the two products that read it.
struct Weight {
    int in = 0, out = 0;
    Right forward, backward;
    void pack(int o, int i, const float* w) {
        in = i, out = o;
        forward.pack(in, out, w, in, true);
        backward.pack(out, in, w, in, false);
    }
};

struct LayerWeights {
    Weight q, k, v, o, gate, up, down;
};

struct Weights {
    Weight emb;
    LayerWeights layer[kLayers];
    void pack(const Params& p) {
        emb.pack(kVocab, kDim, p.emb);
        for (int i = 0; i < kLayers; ++i) {
            const LayerParams& from = p.layer[i];
            LayerWeights& to = layer[i];
            to.q.pack(kQ, kDim, from.q), to.k.pack(kK, kDim, from.k), to.v.pack(kK, kDim, from.v), to.o.pack(kDim, kQ, from.o);
            to.gate.pack(kFf, kDim, from.gate), to.up.pack(kFf, kDim, from.up), to.down.pack(kDim, kFf, from.down);
        }
    }
};

void linear(int t, const float* x, const Weight& w, float* y, Out out = Out::set) {
    gemm(t, w.out, w.in, 1, x, w.in, w.forward, out, y, w.out);
}

// dx from dy, and dw += dy^T x, where x is packed.
void linear_backward(int t, const Right& x, const Weight& w, const float* dy, float* dx, Out out, float* dw) {
    gemm(t, w.in, w.out, 1, dy, w.out, w.backward, out, dx, w.in);
    gemm<true>(w.out, w.in, t, 1, dy, w.out, x, Out::add, dw, w.in);
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

    // One row of t tokens. Loss and gradients are sums weighted by counts, the gradients times kGradScale.
    void row(const Params& p, const Weights& weights, int t, const int* ids, const int* targets, const float* counts) {
        resize(t);
        for (int i = 0; i < t; ++i) std::memcpy(&x_[size_t(i) * kDim], p.emb + size_t(ids[i]) * kDim, kDim * sizeof(float));
        for (int i = 0; i < kLayers; ++i) forward(p.layer[i], weights.layer[i], layers_[i], t);
        const Params d(pointers_);
        std::fill_n(dx_.begin(), size_t(t) * kDim, 0.f);
        head(p, weights.emb, d, t, targets, counts);
        for (int i = kLayers; i-- > 0;) backward(p.layer[i], weights.layer[i], d.layer[i], layers_[i], t);
        for (int i = 0; i < t; ++i) {
            float* to = d.emb + size_t(ids[i]) * kDim;
            for (int j = 0; j < kDim; ++j) to[j] += dx_[size_t(i) * kDim + j];
        }
    }

    // out[i] = the most likely token after ids[i] for i >= from; the others stay as they are.
    void predict(const Params& p, const Weights& weights, int t, const int* ids, int from, int* out) {
        resize(t);
        for (int i = 0; i < t; ++i) std::memcpy(&x_[size_t(i) * kDim], p.emb + size_t(ids[i]) * kDim, kDim * sizeof(float));
        for (int i = 0; i < kLayers; ++i) forward(p.layer[i], weights.layer[i], layers_[i], t);
        const int n = t - from;
        hn_.resize(size_t(n) * kDim), logits_.resize(size_t(n) * kVocab);
        norm(n, &x_[size_t(from) * kDim], p.norm, r_.data(), hn_.data());
        linear(n, hn_.data(), weights.emb, logits_.data());
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

    void forward(const LayerParams& p, const LayerWeights& w, Layer& l, int t) {
        std::copy_n(x_.begin(), size_t(t) * kDim, l.x.begin());
        norm(t, l.x.data(), p.n1, l.r1.data(), l.n1.data());
        linear(t, l.n1.data(), w.q, l.q.data());
        linear(t, l.n1.data(), w.k, l.k.data());
        linear(t, l.n1.data(), w.v, l.v.data());
        rope(t, kHeads, l.q.data(), cos_.data(), sin_.data(), 1);
        rope(t, kKv, l.k.data(), cos_.data(), sin_.data(), 1);
        for (int h = 0; h < kHeads; ++h) {
            if (h % (kHeads / kKv) == 0) {
                const int kv = h / (kHeads / kKv) * kWidth;
                keys_.pack(kWidth, t, l.k.data() + kv, kK, true);
                values_.pack(t, kWidth, l.v.data() + kv, kK, false);
            }
            attend(l, t, h);
        }
        linear(t, l.o.data(), w.o, x_.data(), Out::add);
        std::copy_n(x_.begin(), size_t(t) * kDim, l.mid.begin());
        norm(t, l.mid.data(), p.n2, l.r2.data(), l.n2.data());
        linear(t, l.n2.data(), w.gate, l.g.data());
        linear(t, l.n2.data(), w.up, l.u.data());
        for (size_t i = 0; i < size_t(t) * kFf; ++i) l.h[i] = l.g[i] / (1 + std::exp(-l.g[i])) * l.u[i];
        linear(t, l.h.data(), w.down, x_.data(), Out::add);
    }

    // s_[rows, end] = scaled scores of the queries [begin, end) over the keys [0, end).
    void scores(const Layer& l, int begin, int end, int h) {
        gemm(end - begin, end, kWidth, 1 / std::sqrt(float(kWidth)), &l.q[size_t(begin) * kQ + h * kWidth], kQ, keys_, Out::set, s_.data(), end, 32);
    }

    void attend(Layer& l, int t, int h) {
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
            gemm(end - begin, kWidth, end, 1, s_.data(), end, values_, Out::set, &l.o[size_t(begin) * kQ + h * kWidth], kQ);
        }
    }

    // From do_ (gradient of l.o) to dq_, dk_, dv_; the latter two are added to.
    void attend_backward(const Layer& l, int t, int h) {
        const int kv = h / (kHeads / kKv) * kWidth;
        for (int begin = 0; begin < t; begin += kQueryBlock) {
            const int end = std::min(t, begin + kQueryBlock), rows = end - begin;
            const size_t at = size_t(begin) * kQ + h * kWidth;
            scores(l, begin, end, h);
            gemm(rows, end, kWidth, 1, &do_[at], kQ, values_across_, Out::set, ds_.data(), end);
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
            block_.pack(rows, kWidth, &do_[at], kQ, false);
            gemm<true>(end, kWidth, rows, 1, s_.data(), end, block_, Out::add, dv_.data() + kv, kK);
            block_.pack(rows, kWidth, &l.q[at], kQ, false);
            gemm<true>(end, kWidth, rows, scale, ds_.data(), end, block_, Out::add, dk_.data() + kv, kK);
            gemm(rows, kWidth, end, scale, ds_.data(), end, keys_across_, Out::set, &dq_[at], kQ);
        }
    }

    // Turns dx_, the gradient of the layer's output, into that of its input.
    void backward(const LayerParams& p, const LayerWeights& w, const LayerParams& d, Layer& l, int t) {
        block_.pack(t, kFf, l.h.data(), kFf, false);
        linear_backward(t, block_, w.down, dx_.data(), dh_.data(), Out::set, d.down);
        for (size_t i = 0; i < size_t(t) * kFf; ++i) {
            const float s = 1 / (1 + std::exp(-l.g[i])), silu = l.g[i] * s;
            dg_[i] = dh_[i] * l.u[i] * (s + silu * (1 - s));
            dh_[i] *= silu;
        }
        block_.pack(t, kDim, l.n2.data(), kDim, false);
        linear_backward(t, block_, w.gate, dg_.data(), d1_.data(), Out::set, d.gate);
        linear_backward(t, block_, w.up, dh_.data(), d1_.data(), Out::add, d.up);
        norm_backward(t, l.mid.data(), p.n2, l.r2.data(), d1_.data(), dx_.data(), d.n2);
        block_.pack(t, kQ, l.o.data(), kQ, false);
        linear_backward(t, block_, w.o, dx_.data(), do_.data(), Out::set, d.o);
        std::fill(dk_.begin(), dk_.end(), 0.f), std::fill(dv_.begin(), dv_.end(), 0.f);
        for (int h = 0; h < kHeads; ++h) {
            if (h % (kHeads / kKv) == 0) {
                const int kv = h / (kHeads / kKv) * kWidth;
                keys_.pack(kWidth, t, l.k.data() + kv, kK, true);
                keys_across_.pack(t, kWidth, l.k.data() + kv, kK, false);
                values_across_.pack(kWidth, t, l.v.data() + kv, kK, true);
            }
            attend_backward(l, t, h);
        }
        rope(t, kHeads, dq_.data(), cos_.data(), sin_.data(), -1);
        rope(t, kKv, dk_.data(), cos_.data(), sin_.data(), -1);
        block_.pack(t, kDim, l.n1.data(), kDim, false);
        linear_backward(t, block_, w.q, dq_.data(), d1_.data(), Out::set, d.q);
        linear_backward(t, block_, w.k, dk_.data(), d1_.data(), Out::add, d.k);
        linear_backward(t, block_, w.v, dv_.data(), d1_.data(), Out::add, d.v);
        norm_backward(t, l.x.data(), p.n1, l.r1.data(), d1_.data(), dx_.data(), d.n1);
    }

    // Loss at the positions that count, and the gradient there into dx_.
    void head(const Params& p, const Weight& emb, const Params& d, int t, const int* targets, const float* counts) {
        std::vector<int> at;
        for (int i = 0; i < t; ++i)
            if (counts[i] > 0) at.push_back(i);
        const int n = int(at.size());
        hx_.resize(size_t(n) * kDim), hn_.resize(size_t(n) * kDim), hd_.resize(size_t(n) * kDim), logits_.resize(size_t(n) * kVocab);
        for (int i = 0; i < n; ++i) std::copy_n(&x_[size_t(at[i]) * kDim], kDim, &hx_[size_t(i) * kDim]);
        norm(n, hx_.data(), p.norm, r_.data(), hn_.data());
        linear(n, hn_.data(), emb, logits_.data());
        for (int i = 0; i < n; ++i) {
            float* y = &logits_[size_t(i) * kVocab];
            const int target = targets[at[i]];
            const float w = counts[at[i]], mine = y[target];
            float top = y[0], sum = 0;
            for (int j = 1; j < kVocab; ++j) top = std::max(top, y[j]);
            if (w > 1) counted += 1, right += mine == top;
            for (int j = 0; j < kVocab; ++j) sum += y[j] = std::exp(y[j] - top);
            loss += double(w) * (std::log(sum) + top - mine);
            const float factor = w * kGradScale / sum;
            for (int j = 0; j < kVocab; ++j) y[j] *= factor;
            y[target] -= w * kGradScale;
        }
        block_.pack(n, kDim, hn_.data(), kDim, false);
        linear_backward(n, block_, emb, logits_.data(), hd_.data(), Out::set, d.emb);
        std::fill(hn_.begin(), hn_.end(), 0.f);
        norm_backward(n, hx_.data(), p.norm, r_.data(), hd_.data(), hn_.data(), d.norm);
        for (int i = 0; i < n; ++i) std::copy_n(&hn_[size_t(i) * kDim], kDim, &dx_[size_t(at[i]) * kDim]);
    }

    int size_ = 0;
    Right keys_, keys_across_, values_, values_across_, block_;
    std::vector<float> sums_, x_, dx_, d1_, dq_, dk_, dv_, do_, dh_, dg_, r_, s_, ds_, cos_, sin_, hx_, hn_, hd_, logits_;
    float* pointers_[kTensors];
    Layer layers_[kLayers];
};

}  // namespace

// params and grads: kTensors pointers each. ids, targets and weights: [rows, t]. out: loss, share of right answers. grads are overwritten.
extern "C" void train_step(float* const* params, float* const* grads, int rows, int t, const int* ids, const int* targets, const float* weights,
                           int threads, float* out) {
    static std::vector<Worker> workers(threads);
    double sum = 0;
    for (size_t i = 0; i < size_t(rows) * t; ++i) sum += weights[i];
    const Params p(params);
    static Weights packed;
    packed.pack(p);
    std::atomic<int> next{0};
    auto work = [&](Worker& w) {
        w.begin();
        for (int i; (i = next++) < rows;) w.row(p, packed, t, ids + size_t(i) * t, targets + size_t(i) * t, weights + size_t(i) * t);
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
            grads[i][j] = g * float(1 / (sum * kGradScale));
        }
    out[0] = float(loss / sum), out[1] = counted > 0 ? float(right / counted) : 0;
}

// ids and out: [rows, t]; from: [rows], the first position whose next token is wanted.
extern "C" void predict(float* const* params, int rows, int t, const int* ids, const int* from, int threads, int* out) {
    const Params p(params);
    Weights packed;
    packed.pack(p);
    std::atomic<int> next{0};
    auto work = [&] {
        Worker w;
        for (int i; (i = next++) < rows;) w.predict(p, packed, t, ids + size_t(i) * t, from[i], out + size_t(i) * t);
    };
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i) team.emplace_back(work);
    work();
    for (std::thread& th : team) th.join();
}

// AdamW with the gradient clipped to norm 1. moments: [2, all parameters], zero before step 1. Only matrices decay.
extern "C" void adamw(float* const* params, float* const* grads, float* moments, int step, float lr, float decay) {
    constexpr float b1 = .9f, b2 = .95f;
    double square = 0;
    for (int i = 0; i < kTensors; ++i) {
        float sum = 0;
        for (size_t j = 0; j < tensor_size(i); ++j) sum += grads[i][j] * grads[i][j];
        square += sum;
    }
    // A product may have left the range of half precision; that step is left out. The bits tell, since -ffast-math takes no NaN for granted.
    uint64_t bits;
    std::memcpy(&bits, &square, sizeof bits);
    if ((bits >> 52 & 0x7ff) == 0x7ff) return;
    const float clip = float(1 / std::max(1.0, std::sqrt(square)));
    const float c1 = 1 - std::pow(b1, float(step)), c2 = 1 - std::pow(b2, float(step));
    float *m = moments, *v = moments + Worker::total();
    for (int i = 0; i < kTensors; ++i) {
        const size_t n = tensor_size(i);
        const float keep = n > kDim ? 1 - lr * decay : 1;
        float *p = params[i], *g = grads[i];
        for (size_t j = 0; j < n; ++j) {
            const float d = g[j] * clip;
            m[j] = b1 * m[j] + (1 - b1) * d;
            v[j] = b2 * v[j] + (1 - b2) * d * d;
            p[j] = p[j] * keep - lr * (m[j] / c1) / (std::sqrt(v[j] / c2) + 1e-8f);
        }
        m += n, v += n;
    }
}
