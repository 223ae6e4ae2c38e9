#include "text/piece_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace cellar::text {
namespace {

rc::Gen<std::vector<std::string>> short_strings() {
    return rc::gen::container<std::vector<std::string>>(rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xff')));
}

RC_GTEST_PROP(PieceIndex, FindsWhatAMapFinds, ()) {
    const auto pieces = *short_strings();
    const auto asked = *short_strings();
    StringPool pool;
    std::map<std::string, int32_t> map;
    bool twice = false;
    for (size_t i = 0; i < pieces.size(); ++i) {
        pool.add(pieces[i]);
        if (!pieces[i].empty()) twice |= !map.emplace(pieces[i], static_cast<int32_t>(i)).second;
    }
    const PieceIndex index(pool);
    RC_ASSERT(index.duplicate().has_value() == twice);
    for (const auto& list : {pieces, asked}) {
        for (const std::string& piece : list) RC_ASSERT(index.find(piece) == (map.contains(piece) ? map[piece] : -1));
    }
}

RC_GTEST_PROP(PieceTrie, FindsAllPiecesThatBeginAText, ()) {
    const auto pieces = *short_strings();
    const std::string text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xff'));
    std::vector<PieceTrie::Entry> entries;
    std::map<std::string, int32_t> map;
    for (size_t i = 0; i < pieces.size(); ++i) {
        entries.push_back({pieces[i], static_cast<int32_t>(i)});
        map.emplace(pieces[i], static_cast<int32_t>(i));
    }
    const PieceTrie trie(entries);
    uint32_t node = PieceTrie::kRoot;
    for (size_t n = 1; n <= text.size(); ++n) {
        if (node != PieceTrie::kNone) node = trie.step(node, static_cast<uint8_t>(text[n - 1]));
        const int32_t found = node == PieceTrie::kNone ? -1 : trie.value(node);
        const auto expected = map.find(text.substr(0, n));
        RC_ASSERT(found == (expected == map.end() ? -1 : expected->second));
    }
}

TEST(PieceIndex, EmptyOneFindsNothing) {
    EXPECT_EQ(PieceIndex().find("a"), -1);
    EXPECT_TRUE(PieceTrie().empty());
    EXPECT_EQ(PieceTrie().step(PieceTrie::kRoot, 'a'), PieceTrie::kNone);
}

}  // namespace
}  // namespace cellar::text
