# Tests that every line is strict JSON and identical in both modes, for all server encodings and all bytes.
#
# CLAIRON_LONG=1 tests all server encodings.
use strict;
use warnings;

use Clairon::Test qw(scratch);
use JSON ();
use Test::More;

my @single = qw(LATIN1 LATIN2 LATIN9 ISO_8859_6 WIN1251 WIN1252 WIN1253 WIN874 KOI8R);
@single = (
    (map {"LATIN$_"} 1 .. 10), (map {"ISO_8859_$_"} 5 .. 8), (map {"WIN125$_"} 0 .. 8),
    qw(WIN866 WIN874 KOI8R KOI8U)) if $ENV{CLAIRON_LONG};
my @wide = qw(EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 MULE_INTERNAL UTF8 SQL_ASCII);
my $pg = Clairon::Test::postgresql('main', extension => 0, conf => <<'CONF');
max_replication_slots = 50
autovacuum = off
CONF
my $connection = $pg->connstr('postgres');
srand 20250305;

# Returns all characters of a single-byte encoding, or many multi-byte characters.
sub characters
{
    my ($encoding) = @_;
    my $ascii = join '', map {chr} 1 .. 127;
    return $ascii . join '', map {chr} 128 .. 255 if grep { $_ eq $encoding } @single, 'SQL_ASCII';
    my $lead = $encoding eq 'MULE_INTERNAL' ? "\x81" : '';
    my $text = '';
    for (1 .. 3000)
    {
        my @bytes = map { 0xa1 + int rand 94 } 1 .. 2;
        if ($encoding eq 'UTF8') { $text .= utf8_character() }
        elsif ($lead) { $text .= $lead . chr $bytes[0] }
        else { $text .= chr($bytes[0]) . chr $bytes[1] }
    }
    return $ascii . $text;
}

sub utf8_character
{
    my $code = 0x80 + int rand(rand() < 0.5 ? 0x700 : rand() < 0.5 ? 0xd700 : 0x10ff7f);
    $code += 0x1000 if $code >= 0xd800 && $code <= 0xdfff;
    my $character = chr $code;
    utf8::encode($character);
    return $character;
}

sub run_file
{
    my ($database, $encoding, $sql) = @_;
    my $file = scratch() . '/run.sql';
    open my $out, '>:raw', $file or die "$file: $!";
    print $out "SET client_encoding = '$encoding';\n", $sql;
    close $out or die "$file: $!";
    local $ENV{PGCLIENTENCODING} = $encoding;
    my $to = $connection =~ s/dbname='?postgres'?/dbname='$database'/r;
    system('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $to, '-f', $file, '-o', "$file.out");
    return $? == 0;
}

# Names have up to 63 bytes and end at a character boundary; values contain the other characters.
sub workload
{
    my ($encoding) = @_;
    my $text = characters($encoding);
    my $value = $text =~ s/'/''/gr;
    my $json = $text =~ s/([\x01-\x1f"\\])/sprintf '\\u%04x', ord $1/ger =~ s/'/''/gr;
    my $name = $encoding eq 'UTF8' ? "n\xc3\xa9 \xe2\x82\xac" : 'n' . substr($text, 127, 40);
    $name =~ s/"/""/g;
    return <<"SQL";
CREATE TABLE "$name" (id int PRIMARY KEY, "c$name" text, j json, b jsonb, a text[], w text);
SELECT clairon.watch('"$name"', 'USER', 'w');
INSERT INTO "$name" VALUES (1, '$value', '{"k" : "$json"}', '["$json"]',
    ARRAY['$value', NULL], 'u$name');
UPDATE "$name" SET w = 'v';
SELECT clairon.notify('USER', ARRAY['u$name'], jsonb_build_object('p', '$value'::text));
SQL
}

sub lines_of
{
    my ($database, $mode) = @_;
    my $call =
        "peek_binary_changes('$database', NULL, NULL, 'mode', '$mode',"
        . " 'include_tables', 'public.*')";
    return map { pack 'H*', $_ } split /\n/,
        $pg->safe_psql($database, "SELECT encode(data, 'hex') FROM pg_logical_slot_$call");
}

sub notifications_of_frames
{
    my ($bytes) = @_;
    my @notifications;
    while (length $bytes)
    {
        my ($length, $kind) = unpack 'Na', $bytes;
        my ($audience, $topic, $targets, $rule) = $kind eq 'N' ? unpack '@64 n n N @92 n', $bytes : (0) x 4;
        my $head = 104 + $audience + $topic + $rule + $targets;
        push @notifications, substr $bytes, $head, $length - $head if $kind eq 'N';
        $bytes = substr $bytes, $length;
    }
    return @notifications;
}

sub faults
{
    my (@lines) = @_;
    my $file = scratch() . '/lines';
    open my $out, '>:raw', $file or die "$file: $!";
    print $out map {"$_\n"} @lines;
    close $out or die "$file: $!";
    return Clairon::Test::strict_faults($file);
}

for my $encoding (@single, @wide)
{
    my $database = lc $encoding;
    $pg->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding'"
            . " LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    $pg->safe_psql($database, "CREATE EXTENSION clairon;"
            . "SELECT pg_create_logical_replication_slot('$database', 'clairon')");
    ok(run_file($database, $encoding, workload($encoding)), "$encoding: the rows are written");
    my @text = lines_of($database, 'text');
    my @framed = map { notifications_of_frames($_) } lines_of($database, 'framed');
    is(scalar @text, 5, "$encoding: there is a line for each change and rule");
    is(faults(@text, @framed), '', "$encoding: both modes are strict JSON");
    my $json = JSON->new->utf8->allow_nonref;
    is_deeply(
        [map { $json->decode($_) } @text], [map { $json->decode($_) } @framed],
        "$encoding: both modes agree");
    unlike("@text", qr/[^\x20-\x7f]/, "$encoding: text mode is ASCII") if $encoding ne 'UTF8';
    is( $json->decode($framed[0])->{payload}{after}{j}{k},
        $json->decode($framed[0])->{payload}{after}{b}[0],
        "$encoding: json and jsonb agree");
}

done_testing();
