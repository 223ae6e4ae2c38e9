// Kernels other than matrix products and attention's own, declared once: both tables define them, each in the namespace that includes
// this file. The contracts are those of ops.h.
void rms_norm(Mat x, const float* weight, float eps, MatOut y, ThreadTeam& team);
void layer_norm(Mat x, const float* weight, const float* bias, float eps, MatOut y, ThreadTeam& team);
void rope_table(const RopeSpec& rope, const int32_t* pos, int64_t rows, float* table);
void rope(MatOut x, int heads, int width, int dims, RopePairing pairing, const float* table, ThreadTeam& team);
void add(Mat a, Mat b, MatOut y, ThreadTeam& team);
void scale(Mat a, float factor, MatOut y, ThreadTeam& team);
void activate(Activation kind, Mat a, MatOut y, ThreadTeam& team);
void activate_mul(Activation kind, Mat gate, Mat up, MatOut y, ThreadTeam& team);
void soft_cap(Mat a, float cap, MatOut y, ThreadTeam& team);
void gather_rows(Mat x, const int32_t* rows, int64_t count, MatOut y, ThreadTeam& team);
void route(const RouteSpec& spec, Mat logits, int32_t* ids, float* weights, ThreadTeam& team);
void combine_experts(Mat x, const float* weights, int used, MatOut y, ThreadTeam& team);
void store_rows(Mat x, const kv::RowTable& table, int plane, const int32_t* cells, ThreadTeam& team);
