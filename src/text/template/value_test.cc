// The heap, dicts, and searching in text, by random operations against plain models.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "text/template/builder.h"
#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {
namespace {

TEST(TemplateHeap, AccountsForEveryByte) {
    Budget budget{Limits{}};
    {
        Heap heap(budget);
        {
            const Value text = heap.string(std::string(1000, 'x'));
            EXPECT_GE(budget.memory(), 1000u);
            Ref<List> list(heap.make<List>(Kind::List));
            for (int i = 0; i < 100; ++i) list->push(text);
            EXPECT_GE(budget.memory(), 2600u);
            Builder builder(heap);
            builder.append(5000, 'y');
            EXPECT_GE(budget.memory(), 7600u);
        }
        EXPECT_EQ(budget.memory(), 0u);
        // A million lists in each other, freed without a million stack frames.
        Value tower;
        for (int i = 0; i < 1'000'000; ++i) {
            Ref<List> list(heap.make<List>(Kind::List));
            list->push(std::move(tower));
            tower = list.value();
        }
        tower = Value();
        EXPECT_EQ(budget.memory(), 0u);
        // A circle stays until the heap ends; the leak checker of the sanitizer build would see it otherwise.
        Ref<Namespace> self(heap.make<Namespace>());
        self->set("self", self.value());
    }
}

RC_GTEST_PROP(TemplateDict, IsAListOfPairsWithUniqueKeys, ()) {
    Budget budget{Limits{}};
    Heap heap(budget);
    Ref<Dict> dict(heap.make<Dict>());
    std::vector<std::pair<std::string, int>> model;
    const auto operations = *rc::gen::container<std::vector<std::pair<int, int>>>(rc::gen::pair(rc::gen::inRange(0, 40), rc::gen::inRange(0, 1000)));
    for (const auto& [key, value] : operations) {
        // Numbers and texts, some of them equal to each other: 3, 3.0 and True are one key, '3' is another.
        const Value k = key % 3 == 0 ? heap.string(std::to_string(key / 3)) : key % 3 == 1 ? Value::integer(key / 3) : Value::real(key / 3);
        const std::string name = (key % 3 == 0 ? "s" : "n") + std::to_string(key / 3);
        dict->set(k, Value::integer(value));
        const auto at = std::find_if(model.begin(), model.end(), [&](const auto& pair) { return pair.first == name; });
        if (at == model.end()) {
            model.emplace_back(name, value);
        } else {
            at->second = value;
        }
        RC_ASSERT(dict->entries.size() == model.size());
        RC_ASSERT(dict->find(k)->as_int() == value);
    }
    for (std::size_t i = 0; i < model.size(); ++i) RC_ASSERT(dict->entries[i].value.as_int() == model[i].second);
    RC_ASSERT(dict->find("nothing") == nullptr);
}

RC_GTEST_PROP(TemplateText, IsSearchedLikeAStringView, ()) {
    const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b'));
    const std::string text = *letters;
    const std::string needle = (*letters).substr(0, 4);
    RC_ASSERT(jinja::find(text, needle) == text.find(needle));
    RC_ASSERT(jinja::find_last(text, needle) == text.rfind(needle));
    const auto from = *rc::gen::inRange<std::size_t>(0, 20);
    RC_ASSERT(jinja::find(text, needle, from) == text.find(needle, from));
}

RC_GTEST_PROP(TemplateText, PointsRoundTrip, (std::vector<std::uint32_t> numbers)) {
    std::string text;
    std::vector<char32_t> points;
    for (const std::uint32_t n : numbers) {
        const char32_t code = n % 3 == 0 ? n % 0x80 : n % 3 == 1 ? n % 0x3000 : n % 0x110000;
        if (!is_scalar(code)) continue;
        append_point(text, code);
        points.push_back(code);
    }
    RC_ASSERT(!invalid_utf8_at(text));
    RC_ASSERT(count_points(text) == points.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
        RC_ASSERT(offset_of(text, i) == at);
        RC_ASSERT(decode(text, at).code == points[i]);
        at += decode(text, at).size;
    }
    RC_ASSERT(offset_of(text, points.size()) == text.size());
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0x80) RC_ASSERT(invalid_utf8_at(text.substr(0, text.size() - 1)).has_value());
}

RC_GTEST_PROP(TemplateText, FloatsReadBackAsThemselves, (double value)) {
    const std::string text = float_text(value);
    double back = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), back);
    RC_ASSERT(result.ptr == text.data() + text.size());
    RC_ASSERT((back == value || (std::isnan(back) && std::isnan(value))));
    RC_ASSERT(text.find_first_of(".en") != std::string::npos);
}

TEST(TemplateText, InvalidUtf8IsFound) {
    for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                            "\xf5\x80\x80\x80", "\xe4\xbd", "\xc3", "\xc3(", "\xff"})
        EXPECT_EQ(invalid_utf8_at("ab" + std::string(bad)), 2u) << bad;
    EXPECT_FALSE(invalid_utf8_at("a\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x8e\x89"));
}

}  // namespace
}  // namespace cellar::jinja
