/** Opens the host and puts the panel on the page. */
import { mount } from "svelte";

import { open } from "#host";

import App from "./App.svelte";
import "./styles/tokens.css";
import "./styles/base.css";

const target = document.getElementById("panel");
if (target) mount(App, { target, props: { host: open() } });
