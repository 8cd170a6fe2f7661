# Tests that Prometheus can read /metrics, that each stage exports its latency, and that the dashboard and the alerts
# use existing metrics.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use PostgreSQL::Test::Utils qw(run_log slurp_file);
use Test::More;

my $top   = Clairon::Test::top();
my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'gate.workers' => 2, 'gate.max_connections' => 100, 'delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '10ms' });

sub notify
{
    my ($user, @more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{}', " . join(', ', 'ack_required => true', 'retry_limit => 0', @more) . ')');
}
sub value { return $relay->metric($_[0]) // 0 }
sub has { my ($name, $count) = @_; return wait_until("$name is $count", sub { value($name) == $count }) }

# One notification is acknowledged, one is exhausted, and one is pending.
my $secret = 'somebody-secret';
my ($one, $two) = map { $relay->client($_) } $secret, 'other';
my $id = notify($secret, q{ack_timeout => '1 hour'});
$one->run_until('the notification arrives', sub { $one->notifications == 1 });
$one->ack($id);
notify('other');
$two->run_until('the other notification arrives', sub { $two->notifications == 1 });
has('clairon_store_acks_total', 1);
has('clairon_errors_total{reason="exhausted"}', 1);
notify('away');
has('clairon_pending_messages', 1);
has('clairon_store_stream_entries', 3);
has('clairon_sent_seconds_count', 2);
has('clairon_acked_seconds_count', 1);
is(value('clairon_decoded_seconds_count'), 3, 'three transactions were decoded');
is(value('clairon_gate_accepted_total'), 2, 'counters of both workers are added');
is(value('clairon_gate_connections_max'), 200, 'limits of both workers are added');
for my $script (qw(ingest report ack due other))
{
    cmp_ok(value(qq{clairon_store_script_seconds_count{script="$script"}}), '>', 0, "script $script has durations");
}
wait_until('the age of the oldest pending notification grows', sub { value('clairon_pending_oldest_seconds') > 0.1 });
cmp_ok(value('clairon_sent_seconds_sum'), '<', 2 * (time() - $^T),
    'the recorded times do not exceed the duration of this test');
# A rule whose target column is not in the WAL denies the row.
$pg->safe_psql('postgres', q{CREATE TABLE hidden (id int PRIMARY KEY, owner text); SELECT clairon.watch('hidden', 'USER', 'owner', operations => '{delete}');
    INSERT INTO hidden SELECT generate_series(1, 3), 'nobody'; DELETE FROM hidden});
has('clairon_denied_total{reason="rows"}', 3);
like($relay->log_text, qr/level=warn .*changes denied" reason="rows" count=3 /, 'the log of the relay reports them');
is($pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE strpos(query, 'clairon.denials(slot_name) WHERE slot_name = ' || quote_literal('clairon')) > 0 AND pid <> pg_backend_pid()}),
    1, 'the doctor can find the session that queries the status');
like($pg->safe_psql('postgres', 'SELECT denied FROM clairon.status'), qr/"account": "rows"/, 'clairon.status contains the denied rows');
like($pg->safe_psql('postgres', q{SELECT detail, hint FROM clairon.doctor() WHERE check_name LIKE 'account of %'}),
    qr/3 changes were denied by slot clairon, as rows that a rule cannot evaluate.*REPLICA IDENTITY FULL/, 'the doctor explains them');

my ($status, $text) = $relay->get('/metrics');
is($status, 200, 'one response contains all metrics');
unlike($text, qr/\Q$secret\E|\Q$id\E/, 'metrics contain no users and no ids');

# Checks the text format strictly: headers precede samples, each metric family occurs once, and names are valid.
my (%kind, %help, %seen, %samples, @faults, $family);
for my $line (split /\n/, $text)
{
    if ($line =~ /^# HELP (\S+) (\S.*)$/) { push @faults, "twice: $1" if $help{$1}++; next }
    if ($line =~ /^# TYPE (\S+) (counter|gauge|histogram)$/)
    {
        push @faults, "TYPE without HELP: $1" unless $help{$1};
        push @faults, "family twice: $1" if $kind{$1};
        $kind{ $family = $1 } = $2;
        next;
    }
    if ($line !~ /^(clairon_[a-z_]+)(?:\{([a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*)\})? (\d+(?:\.\d+)?)$/)
    {
        push @faults, "not a sample: $line";
        next;
    }
    my ($name, $labels, $number) = ($1, $2 // '', $3);
    my $base = $name =~ s/_(bucket|sum|count)$//r;
    my $owner = ($kind{$base} // '') eq 'histogram' ? $base : $name;
    push @faults, "$name is not below its header" unless $owner eq ($family // '');
    push @faults, "twice: $name $labels" if $seen{"$name $labels"}++;
    push @{ $samples{$name} }, [ $labels, $number ];
}
for my $name (sort keys %kind)
{
    push @faults, "a counter's name must end in _total: $name" if $kind{$name} eq 'counter' && $name !~ /_total$/;
    push @faults, "only a counter's name may end in _total: $name" if $kind{$name} ne 'counter' && $name =~ /_total$/;
    push @faults, "not a base unit: $name" if $name =~ /_(ms|us|milliseconds|microseconds|minutes|hours|days|kilobytes|megabytes|kb|mb)(_|$)/;
    next unless $kind{$name} eq 'histogram';
    my (%last, %end);
    for (@{ $samples{"${name}_bucket"} })
    {
        my ($rest, $le) = $_->[0] =~ /^(.*?),?le="([^"]+)"$/;
        push @faults, "$name: buckets decrease at $le" if $_->[1] < ($last{$rest} // 0);
        $last{$rest} = $_->[1];
        $end{$rest} = $le;
    }
    push @faults, "$name: no +Inf bucket" if grep { $_ ne '+Inf' } values %end;
    push @faults, "$name: count differs from the +Inf bucket" if grep { $_->[1] != $last{ $_->[0] } } @{ $samples{"${name}_count"} };
}
is_deeply(\@faults, [], 'the format is valid');
cmp_ok(scalar(keys %kind), '>', 40, 'the output contains metrics');

# The dashboard and the alerts use exported metrics.
my $dashboard = JSON::decode_json(slurp_file("$top/docker/grafana-dashboard.json"));
my $alerts    = slurp_file("$top/docker/alerts.yml");
my @queries = map { $_->{expr} } map { @{ $_->{targets} // [] } } @{ $dashboard->{panels} };
cmp_ok(scalar(@queries), '>', 30, 'the dashboard has queries');
my @expressions = $alerts =~ /^ +expr: (.*)$/mg;
my %missing = map { $_ => 1 } grep { !$kind{$_} && !$kind{s/_(bucket|sum|count)$//r} } map { /\b(clairon_[a-z_]+)/g } @queries, @expressions;
is_deeply([ sort keys %missing ], [], 'all metrics of dashboard and alerts are exported');
my %named = map { s/_(bucket|sum|count)$//r => 1 } map { /\b(clairon_[a-z_]+)/g } @queries;
is_deeply([ grep { !$named{$_} } sort keys %kind ], [], 'the dashboard shows all exported metrics');
my %ids;
$ids{ $_->{id} }++ for @{ $dashboard->{panels} };
is_deeply([ grep { $_ > 1 } values %ids ], [], 'the panels of the dashboard have distinct ids');

# The inhibit rules name alerts.
my %alerts = map { $_ => 1 } $alerts =~ /^ +- alert: (\w+)$/mg;
my @matchers = map { /alertname (?:= (\w+)|=~ "([^"]+)")/g } grep { /matchers/ } split /\n/, slurp_file("$top/docker/alertmanager.yml");
my @patterns = map { split /\|/ } grep { defined } @matchers;
cmp_ok(scalar(@patterns), '>', 10, 'inhibit rules are defined');
is_deeply([ grep { my $pattern = $_; !grep { /^$pattern$/ } keys %alerts } @patterns ], [], 'the inhibit rules name existing alerts');

# Each label in `equal` remains in the expressions of the alerts: a missing label is equal only to a missing label.
my @rules = map { [ /source_matchers: (.*)/, /target_matchers: (.*)/, /equal: \[(.*)\]/ ] }
  grep { /^source/ } split /^  - (?=source)/m, slurp_file("$top/docker/alertmanager.yml");
my %expression = $alerts =~ /^ +- alert: (\w+)\n +expr: (.*)$/mg;
sub named_by { my $patterns = join '|', grep { defined } $_[0] =~ /alertname (?:= (\w+)|=~ "([^"]+)")/; return grep { /^(?:$patterns)$/ } keys %alerts }
sub keeps { my ($expression, $label) = @_; return !grep { !defined || !/\b$label\b/ } $expression =~ /\b(?:sum|min|max|avg|count)(?: by \(([^)]*)\))?(?= ?\()/g }
my @without;
for my $rule (grep { defined $_->[2] } @rules)
{
    my ($source, $target, $equal) = @$rule;
    for my $alert (map { named_by($_) } $source, $target) { push @without, map { "$alert: $_" } grep { !keeps($expression{$alert}, $_) } split /, */, $equal }
}
is_deeply(\@without, [], 'the labels that inhibit rules compare are in both alerts');

# While the feed has no connection, the metric of ClaironWalHeld is 0. So ClaironNoFeed and the alerts that inhibit it name
# the WAL that the slot retains.
my @naming = ('ClaironNoFeed', map { named_by($_->[0]) } grep { grep { $_ eq 'ClaironNoFeed' } named_by($_->[1]) } @rules);
cmp_ok(scalar(@naming), '>', 1, 'ClaironNoFeed is inhibited');
is_deeply([ grep { my $name = $_; $alerts !~ /- alert: $name\n(?:(?!- alert:).*\n)*? +description: ".*retained_wal_bytes/ } @naming ], [],
    'without a feed, an alert names the WAL that the slot retains');

# WAL that a connected feed does not confirm is reported, whatever the cause is.
my @hiding = map { /source_matchers: (.*)\n.*target_matchers: .*ClaironWalHeld/ ? $1 : () } split /^  - (?=source)/m, slurp_file("$top/docker/alertmanager.yml");
is_deeply(\@hiding, ['[alertname = ClaironNoFeed]'], 'only ClaironNoFeed inhibits ClaironWalHeld');

# docker/RUNBOOKS.md has a section for each alert.
my $book = slurp_file("$top/docker/RUNBOOKS.md");
my @names = $alerts =~ /^ +- alert: (\w+)$/mg;
cmp_ok(scalar(@names), '>', 10, 'alerts are defined');
is_deeply([ grep { $book !~ /^### \Q$_\E$/m } @names ], [], 'RUNBOOKS.md explains each alert');
is_deeply([ grep { my $name = lc; $alerts !~ /runbook_url: "RUNBOOKS\.md#$name"/ } @names ], [], 'each alert links to its section');

# Each metric mentioned on the pages exists; other names with this prefix are roles and a schema.
my %mentioned = map { $_ => 1 } map { slurp_file("$top/$_") =~ /\b(clairon_[a-z_]*[a-z])\b/g }
  qw(README.md docs/REFERENCE.md docs/STORE.md client/PROTOCOL.md decoder/FRAMES.md), map { s{^\Q$top\E/}{}r } glob "$top/docker/*.md";
delete @mentioned{qw(clairon_app clairon_relay clairon_internal)};
cmp_ok(scalar(keys %mentioned), '>', 3, 'the pages mention more than three metrics');
is_deeply([ sort grep { !$kind{$_} && !$kind{s/_(bucket|sum|count)$//r} } keys %mentioned ], [], 'all metrics on the pages are exported');

# Uses the installed promtool, or extracts promtool from Debian's package without installing it.
sub promtool
{
    return 'promtool' if system('command -v promtool >/dev/null') == 0;
    my $dir = PostgreSQL::Test::Utils::tempdir();
    my $got = system("cd $dir && apt-get -q download prometheus >/dev/null"
          . ' && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool');
    return $got == 0 ? "$dir/usr/bin/promtool" : undef;
}

SKIP: {
    my $promtool = promtool() or skip 'promtool is not installed (Debian package prometheus), and cannot be downloaded', 2;
    my ($out, $err) = ('', '');
    my $ok = run_log([ $promtool, 'check', 'metrics' ], '<', \$text, '>', \$out, '2>', \$err);
    ok($ok && $out . $err eq '', 'promtool finds no problem in the metrics') or diag $out, $err;
    ok(run_log([ $promtool, 'check', 'rules', "$top/docker/alerts.yml" ]), 'promtool accepts the alerts');
}

done_testing();
