# Clairon::Test::Page: our JavaScript client in a node process that tells what it sees, a JSON object a line.
#
#   my $page = Clairon::Test::page(url => .., token => .., name => 'page', websocket => 0);
#   $page->events;  $page->rows;  $page->state;  $page->troubles;
package Clairon::Test::Page;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use JSON ();

# Without `websocket`, or where node has none, no WebSocket gets through.
sub script
{
    my ($top, $websocket) = @_;
    my $class = $websocket ? 'globalThis.WebSocket ?? Dead' : 'Dead';
    return <<"END";
import { connect } from 'file://$top/client/dist/index.js';
class Dead { constructor() { setTimeout(() => this.onclose?.({ code: 1006 }), 1); } close() {} }
const emit = (what) => console.log(JSON.stringify(what));
const client = connect({ url: process.argv[2], token: process.argv[3], WebSocket: $class, backoff: { base: 20, cap: 100 } });
client.on('t', (n) => emit({ row: n.payload.after.id }));
client.on('state', ({ state, reason }) => emit({ state, reason, transport: client.transport }));
client.on('gap', (gap) => emit({ gap }));
client.on('error', ({ error }) => emit({ error: error.message }));
END
}

# Node 20 has a WebSocket for who asks, 22 for everybody.
sub node
{
    my $asking = '--experimental-websocket';
    return ('node', system("node $asking -e 0 >/dev/null 2>&1") == 0 ? $asking : ());
}

sub new
{
    my ($class, %options) = @_;
    my $name = $options{name} // 'page';
    my $file = "$options{folder}/page.mjs";
    open my $out, '>', $file or die "could not write $file: $!";
    print {$out} script($options{top}, $options{websocket});
    close $out or die "could not write $file: $!";
    return bless { name => $name, log => "$options{folder}/log",
        command => [ node(), $file, $options{url}, $options{token} ] }, $class;
}

sub command { return @{ $_[0]{command} } }

sub events   { return map { eval { JSON::decode_json($_) } // () } split /\n/, $_[0]->log_text }
sub rows     { return map { $_->{row} } grep { defined $_->{row} } $_[0]->events }
sub state    { my ($last) = reverse grep { $_->{state} } $_[0]->events; return $last // {} }
sub troubles { return map { JSON::encode_json($_) } grep { $_->{gap} || $_->{error} } $_[0]->events }

1;
