#!/usr/bin/env python3
"""Reads the reference in a headless Chromium, from files: search, links, keyboard, the width of a phone, both themes.

usage: reference_browser_test.py FOLDER_OF_THE_SITE [--shots FOLDER]; exit status 77: no browser starts here
"""
import pathlib
import sys
import unittest

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SITE = SHOTS = None
PHONE = (390, 844)
SMALLEST_FONT = 14  # px
PAGES = ["index.html", "functions/index.html", "functions/aclnnGelu.html", "functions/aclnnFusedInferAttentionScoreV2.html",
         "functions/aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize.html", "operators/index.html", "operators/Conv.html",
         "runtime/index.html", "runtime/memory.html", "runtime/status_codes.html", "runtime/types.html", "support.html",
         "tool/index.html", "tool/explain.html", "docs/index.html", "docs/c_api.html", "docs/status.html", "docs/npu_to_laptop.html"]


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.driver = browser()
        except WebDriverException as e:
            print(f"reference_browser_test.py: no browser starts: {e.msg}", file=sys.stderr)
            sys.exit(77)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def open(self, page, size=(1280, 900), scheme="light"):
        command = self.driver.execute_cdp_cmd
        command("Emulation.setDeviceMetricsOverride", {"width": size[0], "height": size[1], "deviceScaleFactor": 1,
                                                       "mobile": size == PHONE})
        command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.get((SITE / page).as_uri())

    def shot(self, name):
        if SHOTS:
            self.driver.save_screenshot(str(SHOTS / f"{name}.png"))

    def hits(self):
        found = self.driver.find_elements(By.CSS_SELECTOR, "#results a.hit b")
        return [h.text for h in found]

    def search(self, text):
        box = self.driver.find_element(By.ID, "search")
        box.clear()
        box.send_keys(text)
        # The list must be that of the whole query: it is built anew with every letter.
        WebDriverWait(self.driver, 10).until(lambda d: d.find_elements(By.CSS_SELECTOR, "#results .hit"))
        self.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 150)")
        return self.hits()

    def test_search_finds_a_function_and_enter_opens_it(self):
        self.open("index.html")
        self.assertEqual(self.search("aclnnLayerNorm")[0], "aclnnLayerNorm")
        self.shot("search")
        self.driver.find_element(By.ID, "search").send_keys(Keys.ENTER)
        WebDriverWait(self.driver, 10).until(lambda d: d.current_url.endswith("functions/aclnnLayerNorm.html"))
        self.assertIn("aclnnLayerNorm", self.driver.find_element(By.TAG_NAME, "h1").text)

    def test_search_takes_parts_of_names_words_and_mistakes(self):
        self.open("functions/aclnnGelu.html")  # one folder down: links are relative
        self.assertIn("aclnnGeluBackward", self.search("gelu back"))
        self.assertIn("aclrtMalloc", self.search("malloc"))
        self.assertIn("opsnn explain", self.search("explain"))
        self.assertIn("aclnnLayerNorm", self.search("layernrom"))
        self.assertEqual(self.search("zzzzqqqq"), [])
        self.assertIn("Nothing is called", self.driver.find_element(By.CSS_SELECTOR, "#results .none").text)

    def test_keyboard(self):
        self.open("index.html")
        self.driver.find_element(By.TAG_NAME, "body").send_keys("/")
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "search")
        hits = self.search("softmax")
        self.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        chosen = self.driver.find_element(By.CSS_SELECTOR, '#results [aria-selected="true"] b').text
        self.assertEqual(chosen, hits[1])
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertFalse(self.driver.find_element(By.ID, "results").is_displayed())

    def test_results_page(self):
        self.open("search.html?q=x".split("?")[0])
        self.driver.get((SITE / "search.html").as_uri() + "?q=rms+norm")
        WebDriverWait(self.driver, 10).until(lambda d: d.find_elements(By.CSS_SELECTOR, "#all-results a.hit"))
        self.assertIn("aclnnRmsNorm", [h.text for h in self.driver.find_elements(By.CSS_SELECTOR, "#all-results b")])

    def test_links_are_followed(self):
        self.open("functions/aclnnGelu.html")
        self.driver.find_element(By.LINK_TEXT, "Gelu").click()
        self.assertTrue(self.driver.current_url.endswith("operators/Gelu.html"))
        self.driver.find_element(By.PARTIAL_LINK_TEXT, "aclnnGeluV2").click()
        self.assertTrue(self.driver.current_url.endswith("functions/aclnnGeluV2.html"))
        self.driver.find_element(By.LINK_TEXT, "161002").click()
        self.assertTrue(self.driver.current_url.endswith("runtime/status_codes.html#161002"))
        self.assertNotIn("ERR_FILE_NOT_FOUND", self.driver.page_source)

    def test_support_table_filters(self):
        self.open("support.html")
        self.driver.find_element(By.CSS_SELECTOR, "#filter input").send_keys("aclnnadaptive")
        shown = [r for r in self.driver.find_elements(By.CSS_SELECTOR, "#support tbody tr") if r.is_displayed()]
        self.assertGreater(len(shown), 3)
        self.assertLess(len(shown), 20)
        self.assertIn(f"{len(shown)} of ", self.driver.find_element(By.CLASS_NAME, "count").text)

    def test_fits_a_phone(self):
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page, PHONE)
                wide, window = self.driver.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
                self.assertLessEqual(wide, window)
                small = self.driver.execute_script("""
                  const found = [];
                  for (const e of document.querySelectorAll("body *")) {
                    if (!e.offsetParent) continue;
                    const text = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
                    const size = parseFloat(getComputedStyle(e).fontSize);
                    if (text && size < arguments[0]) found.push(`${e.tagName} ${e.className}: ${size}px`);
                  }
                  return found;""", SMALLEST_FONT)
                self.assertEqual(small, [])
                self.shot("phone_" + page.replace("/", "_").removesuffix(".html"))

    def test_themes_are_readable(self):
        # Contrast of text on ground, after the formula of WCAG 2; 4.5 is what it asks for.
        for scheme in ("light", "dark"):
            self.open("functions/aclnnGelu.html", scheme=scheme)
            ratio = self.driver.execute_script("""
              const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
                  .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
                return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
              const ground = light(getComputedStyle(document.body).backgroundColor);
              return ["p.lead", "a", "td code", ".small"].map(q => {
                const text = light(getComputedStyle(document.querySelector("main " + q)).color);
                return (Math.max(text, ground) + .05) / (Math.min(text, ground) + .05); });""")
            self.assertGreaterEqual(min(ratio), 4.5, (scheme, ratio))
            self.shot(f"desktop_{scheme}")
        before = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.driver.find_element(By.ID, "theme").click()
        self.assertNotEqual(before, self.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        self.driver.execute_script("localStorage.clear()")

    def test_no_errors_in_the_console(self):
        self.open("index.html")
        self.search("gelu")
        severe = [e for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]
        self.assertEqual(severe, [])


if __name__ == "__main__":
    SITE = pathlib.Path(sys.argv.pop(1)).resolve()
    if "--shots" in sys.argv:
        at = sys.argv.index("--shots")
        SHOTS = pathlib.Path(sys.argv[at + 1])
        SHOTS.mkdir(parents=True, exist_ok=True)
        del sys.argv[at:at + 2]
    unittest.main(verbosity=1)
